"""`Pieces`: a tokenizer of the library tokenizers (WordPiece, BPE, Unigram) as a normalisation.

Its tokens, whole words and subwords, are the words of a vocabulary, so that no word is
unknown whose pieces are there. model2vec's and sentence-transformers' static models come with one;
`train_pieces` learns one from texts. The extra `[subwords]` has the library.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from pacsent.optional import import_optional
from pacsent.text.texts import as_sentences, as_text

_UNKNOWN = "<unk>"
_MAX_PIECE_CHARACTERS = 16
_MAX_TRAINING_CHARACTERS = 50_000_000
# what the unicode normalisation keeps: letters with their marks, numbers, emoji, apostrophes
_NO_WORD = r"[^\p{L}\p{M}\p{N}\p{So}\x{200d}']+"


class Pieces:
    """Text to subwords by a tokenizer.json: `Vocabulary(..., normalize=Pieces(...))`.

    Parameters
    ----------
    definition : str
        The contents of a tokenizer.json. Truncation that it names is done, padding is not.
    max_characters : int or None, default=None
        Of a longer text only the beginning is read, as model2vec does.

    Examples
    --------
    >>> pieces = Pieces('{"model": {"type": "WordLevel", "vocab": {"film": 0}}}')
    >>> pieces
    Pieces(n_tokens=1)
    """

    def __init__(self, definition: str, *, max_characters: int | None = None):
        if max_characters is not None and not (type(max_characters) is int and max_characters > 0):
            raise ValueError(
                f"max_characters must be an integer above 0 or None. Got {max_characters!r} instead"
            )
        self.definition = definition
        self.max_characters = max_characters

    @property
    def token_ids(self) -> dict[str, int]:
        """Token to its number, of any kind of tokenizer; found without the library."""
        return self._parts[0]

    @property
    def unknown(self) -> str | None:
        """The token that stands for what the tokenizer does not know; None where none does."""
        return self._parts[1]

    @cached_property
    def _parts(self) -> tuple[dict[str, int], str | None]:
        """`token_ids` and `unknown`."""
        try:
            return _parse_definition(self.definition)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise ValueError(
                "A tokenizer must be a tokenizer.json with its tokens. It is none."
            ) from None

    def __repr__(self) -> str:
        return f"Pieces(n_tokens={len(self.token_ids)})"

    def __getstate__(self) -> dict[str, Any]:
        return {"definition": self.definition, "max_characters": self.max_characters}

    @cached_property
    def _tokenizer(self) -> Any:
        what = "Text of these vectors is cut into subwords by the library tokenizers"
        library = import_optional("tokenizers", what, "subwords")

        try:
            tokenizer = library.Tokenizer.from_str(self.definition)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(
                f"The tokenizer must be one that the tokenizers library reads. It is not ({error})."
            ) from None

        tokenizer.no_padding()
        return tokenizer

    def _encodings(self, texts: list[str]) -> list:
        if self.max_characters is not None:
            texts = [text[: self.max_characters] for text in texts]

        try:
            return self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        except (TypeError, UnicodeError):  # half a character, which the library refuses
            valid_texts = list(map(_drop_half_characters, texts))
            return self._tokenizer.encode_batch_fast(valid_texts, add_special_tokens=False)

    def __call__(self, text: str) -> list[str]:
        """The tokens of a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        tokens : list of str
        """
        (encoding,) = self._encodings([text])
        return [self._tokenizer.id_to_token(number) for number in encoding.ids]

    def numbers(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the tokens of texts.

        Parameters
        ----------
        texts : list of str

        Returns
        -------
        numbers : array of int64, shape (n_tokens,)
            Those of all texts, one after the other.
        ends : array of int64, shape (n_texts,)
            How many there are after each text.
        """
        lists = [encoding.ids for encoding in self._encodings(texts)]
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        ends = np.cumsum(lengths, dtype=np.int64)

        n_numbers = int(lengths.sum())
        numbers = np.fromiter(itertools.chain.from_iterable(lists), np.int64, n_numbers)
        return numbers, ends


def _parse_definition(definition: str) -> tuple[dict[str, int], str | None]:
    """Numbers of the tokens of a tokenizer.json, and the token for what it does not know."""
    content = json.loads(definition)
    model = content["model"]
    vocab = model["vocab"]
    unknown = model.get("unk_token")

    if isinstance(vocab, list):  # Unigram: token and score
        names = [token for token, _ in vocab]
        vocab = {token: i for i, token in enumerate(names)}
        unknown_id = model.get("unk_id")
        unknown = None if unknown_id is None else names[unknown_id]

    token_ids = {**vocab}
    for entry in content.get("added_tokens") or []:
        token_ids[entry["content"]] = entry["id"]

    for token, number in token_ids.items():
        if not isinstance(token, str) or type(number) is not int or number < 0:
            raise ValueError(f"{token!r} has the number {number!r}")
    return token_ids, unknown


def _drop_half_characters(text: str) -> str:
    """The text without surrogates, which are no characters by themselves."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "ignore")


def train_pieces(texts: Iterable[str], n_pieces: int = 32_000, *, verbose: bool = False) -> Pieces:
    """Learn subwords from texts of any language: BPE, of the library tokenizers.

    Text is read as `normalize="unicode"` reads it (NFKC, lower case, letters, numbers and emoji),
    with or without spaces; frequent words are one piece, marked by ▁ at their beginning. Every
    character of the texts is a piece, so nothing that is written with them is unknown.

    Parameters
    ----------
    texts : iterable of str
        The first 50 million characters are read.
    n_pieces : int, default=32000
        Pieces to learn, at most.
    verbose : bool, default=False
        Show progress on stderr.

    Returns
    -------
    pieces : Pieces
        For `SkipGram(normalize=...)`.

    Examples
    --------
    >>> texts = ["Where is my card?", "¿Dónde está mi tarjeta?"]
    >>> pieces = train_pieces(texts, 32_000)  # doctest: +SKIP
    """
    if type(n_pieces) is not int or n_pieces < 2:
        raise ValueError(f"n_pieces must be an integer of at least 2. Got {n_pieces!r} instead.")

    library = import_optional(
        "tokenizers", "Subwords are learned by the library tokenizers", "subwords"
    )
    model = library.models.BPE(unk_token=_UNKNOWN, fuse_unk=True)
    tokenizer = library.Tokenizer(model)

    steps = library.normalizers
    tokenizer.normalizer = steps.Sequence(
        [
            steps.NFKC(),
            steps.Lowercase(),
            steps.Replace("’", "'"),
            steps.Replace(library.Regex(_NO_WORD), " "),
            steps.Strip(),
        ]
    )
    splits = library.pre_tokenizers
    tokenizer.pre_tokenizer = splits.Sequence([splits.WhitespaceSplit(), splits.Metaspace()])

    trainer = library.trainers.BpeTrainer(
        vocab_size=n_pieces,
        special_tokens=[_UNKNOWN],
        min_frequency=2,
        max_token_length=_MAX_PIECE_CHARACTERS,
        show_progress=verbose,
    )
    sentences = as_sentences(texts, "texts")  # rejects a single str
    training_texts = _first_characters(sentences, _MAX_TRAINING_CHARACTERS)
    tokenizer.train_from_iterator(training_texts, trainer)
    return Pieces(tokenizer.to_str())


def _first_characters(texts: Iterable, n_characters: int) -> Iterator[str]:
    """The texts up to this number of characters, each checked to be one."""
    n_left = n_characters
    for row, element in enumerate(texts):
        if n_left <= 0:
            return
        text = as_text(element, row)
        yield text[:n_left]
        n_left -= len(text)
