"""Vocabularies of subwords, and the folders of model2vec and sentence-transformers.

What the libraries give for a folder, pacsent gives for it, to 1e-5.
"""

import json
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pacsent
from helpers import invoke
from pacsent import Vocabulary
from pacsent.datasets import load_books
from pacsent.storage import write_tensors
from pacsent.words import formats, train_pieces

needs_static = pytest.mark.extra(needs="static")
needs_subwords = pytest.mark.extra(needs="subwords")

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind.",
    "Der Zug nach Wien hat heute Verspätung; die Fahrgäste warten.",
    "東京都は日本の首都であり、世界最大の都市の一つです。",
    "我来到北京清华大学，今天天气很好。",
    "Films about filming filmmakers are filmed by film lovers 😀 👩‍🚀.",
    "L'été, c'est la saison des vacances à la plage.",
] * 20
TEXTS = [
    *("", " ", "\n\t"),
    "The fox!",
    "the the the the",
    "unbelievably überraschend 東京に行きたい 😀🤷🏽‍♀️ ☃",
    "ᚠᛇᚻ ⠓⠑⠇⠇⠕ \U0001f9ff",  # nothing of it is known
    "[UNK] [PAD] <unk> the",
    "naïve café e\u0301 ﬁlm ＦＩＬＭ",
    "x" * 5000,
    "the film of the dog " * 900,  # longer than model2vec reads
    "東京" * 3000,
    "a\x00b \u200b\ufeff c",
]
EMPTY = 0
UNKNOWN = 6
SHORT = slice(3, 6)
LONG = slice(9, 12)

# ---- Tokenizers and folders ----

KINDS = ["WordPiece", "BPE", "Unigram", "WordLevel"]
SPECIAL_TOKENS = ["[UNK]", "[PAD]"]


def untrained_tokenizer(library, kind):
    """A tokenizer of a kind, and the trainer for it."""
    models = library.models
    trainers = library.trainers
    splitters = library.pre_tokenizers

    if kind == "WordPiece":
        tokenizer = library.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = library.normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = splitters.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=220, special_tokens=SPECIAL_TOKENS)
    elif kind == "BPE":
        tokenizer = library.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = splitters.ByteLevel()
        all_bytes = splitters.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=all_bytes)
    elif kind == "Unigram":
        tokenizer = library.Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = splitters.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=300, unk_token="[UNK]", special_tokens=SPECIAL_TOKENS
        )
    else:
        tokenizer = library.Tokenizer(models.WordLevel(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = splitters.Whitespace()
        trainer = trainers.WordLevelTrainer(special_tokens=SPECIAL_TOKENS)
    return tokenizer, trainer


def train_tokenizer(kind):
    """A small tokenizer of a kind, trained here, which pads and cuts off as models have it."""
    library = pytest.importorskip("tokenizers", reason="the extra [subwords] is not installed")
    tokenizer, trainer = untrained_tokenizer(library, kind)

    tokenizer.train_from_iterator(CORPUS, trainer)

    if kind != "BPE":
        padding = tokenizer.token_to_id("[PAD]")
        tokenizer.post_processor = library.processors.TemplateProcessing(
            single="[PAD] $A [PAD]", special_tokens=[("[PAD]", padding)]
        )
        tokenizer.enable_padding(pad_token="[PAD]", pad_id=padding)
    tokenizer.enable_truncation(7)
    return tokenizer


def draw_table(tokenizer, n_dims=16):
    """A row of random numbers for each token."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(tokenizer.get_vocab_size(), n_dims))
    return table.astype(np.float32)


@pytest.fixture(scope="module")
def model2vec():
    return pytest.importorskip("model2vec", reason="the extra [bench] is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as model2vec writes it, normalised."""
    tokenizer = train_tokenizer("Unigram")
    place = tmp_path_factory.mktemp("static") / "potion"
    place.mkdir()
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "config.json").write_text('{"normalize": true}')
    write_tensors(place / "model.safetensors", {"embeddings": draw_table(tokenizer)})
    return place


def write_static(folder, vocab, tensors, kind="WordPiece", added=()):
    """A folder with a tokenizer and a table, as both libraries write one."""
    folder.mkdir(parents=True)
    model = {"type": kind, "vocab": vocab, "unk_token": "[UNK]"}
    tokenizer = {"model": model, "added_tokens": list(added)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_tensors(folder / "model.safetensors", tensors)
    return folder


# ---- The vectors of the libraries ----


@needs_static
@pytest.mark.parametrize(
    "settings", [{}, {"normalize": True}, {"max_length": 5}, {"max_length": None}]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_model2vec_gives_its_vectors(model2vec, kind, settings, tmp_path):
    tokenizer = train_tokenizer(kind)
    table = draw_table(tokenizer)
    model2vec.StaticModel(table, tokenizer, **settings).save_pretrained(tmp_path)
    their_model = model2vec.StaticModel.from_pretrained(tmp_path)
    theirs = their_model.encode(TEXTS)
    if settings == {"max_length": None}:  # thousands of float32 numbers: theirs is the less exact
        for number, ids in enumerate(their_model.tokenize(TEXTS[LONG]), LONG.start):
            total = table[ids].sum(axis=0, dtype=np.float64)
            theirs[number] = total / max(1, len(ids))
    words = pacsent.load(tmp_path)

    with pytest.warns(UserWarning, match="OOV words only"):
        ours = words.encode(TEXTS)

    assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@needs_static
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_alone_has_the_vector_it_has_among_others(model2vec, kind, tmp_path):
    tokenizer = train_tokenizer(kind)
    model = model2vec.StaticModel(draw_table(tokenizer), tokenizer)
    model.save_pretrained(tmp_path)
    words = pacsent.load(tmp_path)

    one_by_one = [words.encode([text])[0] for text in TEXTS[SHORT]]

    assert_allclose(one_by_one, model.encode(TEXTS)[SHORT], atol=1e-5)


@needs_static
@pytest.mark.parametrize("kind", KINDS)
def test_texts_without_tokens_have_zero_vectors(model2vec, kind, tmp_path):
    tokenizer = train_tokenizer(kind)
    model = model2vec.StaticModel(draw_table(tokenizer), tokenizer)
    model.save_pretrained(tmp_path)

    with pytest.warns(UserWarning, match="OOV words only"):
        vectors = pacsent.load(tmp_path).encode(TEXTS)

    assert not vectors[EMPTY].any()
    if kind in ("WordPiece", "WordLevel"):  # the others read any text piece by piece
        assert not vectors[UNKNOWN].any()


@needs_static
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_shared_rows_weights_and_other_numbers_are_read(model2vec, dtype, tmp_path):
    tokenizer = train_tokenizer("WordPiece")
    n_tokens = tokenizer.get_vocab_size()
    table = 20 * draw_table(tokenizer)[:50]
    rng = np.random.default_rng(1)
    model = model2vec.StaticModel(
        table.astype(dtype),
        tokenizer,
        normalize=True,
        weights=rng.random(n_tokens).astype(np.float32),
        token_mapping=rng.integers(50, size=n_tokens),
    )
    model.save_pretrained(tmp_path)
    theirs = model2vec.StaticModel.from_pretrained(tmp_path).encode(TEXTS[SHORT])

    ours = pacsent.load(tmp_path).encode(TEXTS[SHORT])

    # model2vec answers in float16 where the table is so
    assert_allclose(ours, theirs, atol=1e-3 if dtype == "float16" else 1e-5)


@needs_static
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_sentence_transformers_gives_its_vectors(kind, unit, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="the extra [bench] is not there")
    from sentence_transformers import models

    tokenizer = train_tokenizer(kind)
    table = draw_table(tokenizer)
    modules = [models.StaticEmbedding(tokenizer, embedding_weights=table)]
    if unit:
        modules.append(models.Normalize())
    library.SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path))
    their_model = library.SentenceTransformer(str(tmp_path), device="cpu")
    encoder = pacsent.sentences.as_encoder(tmp_path)

    with pytest.warns(UserWarning, match="OOV words only"):
        ours = encoder.encode(TEXTS)

    assert not isinstance(encoder, pacsent.sentences.ExternalEncoder)  # opened by pacsent itself
    assert_allclose(ours, their_model.encode(TEXTS), rtol=1e-5, atol=1e-5)


@pytest.fixture
def write_modules(tmp_path):
    """A function that writes a folder of sentence-transformers with these modules."""

    def write(*kinds, **settings):
        modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
        (tmp_path / "tokenizer.json").write_text("{}")
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
        return tmp_path

    return write


@pytest.mark.parametrize("kinds", [["StaticEmbedding"], ["StaticEmbedding", "Normalize"]])
def test_a_folder_with_a_static_table_is_opened_by_pacsent(write_modules, kinds):
    assert pacsent.storage.is_model_name(write_modules(*kinds))


@pytest.mark.parametrize("kinds", [["StaticEmbedding", "Dense"], ["Transformer", "Pooling"]])
def test_other_modules_are_left_to_sentence_transformers(write_modules, kinds):
    assert not pacsent.storage.is_model_name(write_modules(*kinds))


def test_a_static_table_with_a_prompt_is_left_to_sentence_transformers(write_modules):
    folder = write_modules(
        "StaticEmbedding", prompts={"query": "query: "}, default_prompt_name="query"
    )
    assert not pacsent.storage.is_model_name(folder)


# ---- Folders in use ----


@needs_subwords
def test_a_static_table_is_saved_once_with_its_tokenizer(folder, tmp_path):
    saved = pacsent.save(pacsent.load(folder), tmp_path / "saved")

    assert pacsent.load(saved).vocabulary.normalize_name == "tokenizer"
    assert not (tmp_path / "saved" / "sentences").exists()  # the table is not written twice
    assert all(step["ok"] for step in pacsent.storage.check(saved))


COPIES = {
    "saved": lambda words, path: pacsent.load(pacsent.save(words, path)),
    "saved as an encoder": lambda words, path: pacsent.load(
        pacsent.save(pacsent.sentences.as_encoder(words), path)
    ),
    "pickled": lambda words, path: pickle.loads(pickle.dumps(words)),
}


@needs_subwords
@pytest.mark.parametrize("how", COPIES)
def test_saved_and_opened_again_it_gives_the_same(folder, tmp_path, how):
    words = pacsent.load(folder)

    again = COPIES[how](words, tmp_path / "saved")

    assert_array_equal(again.encode(CORPUS[:6]), words.encode(CORPUS[:6]))


@needs_subwords
def test_a_classifier_takes_the_folder_and_is_saved_with_it(folder, tmp_path):
    languages = ["en", "de", "ja", "zh", "en", "fr"] * 20

    classifier = pacsent.TextClassifier(folder).fit(CORPUS, languages)

    opened = pacsent.load(pacsent.save(classifier, tmp_path / "classifier"))
    assert classifier.predict(["the dog and the fox"]) == ["en"]
    assert opened.predict(["the dog and the fox"]) == ["en"]


@needs_subwords
def test_an_index_takes_the_folder(folder):
    index = pacsent.Index(folder)

    index.add(CORPUS[:6])

    assert index.search(CORPUS[3], 1)[0].text == CORPUS[3]


@needs_subwords
def test_the_embed_command_takes_the_folder(folder, tmp_path):
    text_file = tmp_path / "in.txt"
    text_file.write_text("\n".join(CORPUS[:6]) + "\n")

    invoke("embed", folder, text_file, "-o", tmp_path / "v.npy", status=0)

    expected = pacsent.load(folder).encode(CORPUS[:6])
    assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-6)


# ---- Subwords that are learned ----


@pytest.fixture(scope="module")
def pieces():
    """Two hundred subwords, learned from the corpus."""
    pytest.importorskip("tokenizers")
    return train_pieces(CORPUS, 200)


@needs_subwords
def test_text_is_normalised_before_it_is_split_into_subwords(pieces):
    assert pieces("Don't FILM") == pieces("don’t film,")  # as normalize="unicode" reads text


@needs_subwords
def test_half_a_character_does_not_stop_the_splitting(pieces):
    assert "".join(pieces("the \ud800 dog")) == "▁the▁dog"


@needs_subwords
def test_no_word_is_unknown_to_subwords(pieces):
    vocabulary = Vocabulary(list(pieces.token_ids), normalize=pieces)

    encoded = vocabulary.encode(["filmliebhaber warten", "今天好天"])

    assert not encoded.n_unknown.any()
    assert vocabulary.words[encoded.ids[-1]] != "<unk>"


@pytest.fixture
def known_pieces(pieces):
    """The vocabulary of these subwords, without the token for what is unknown."""
    tokens = [token for token in pieces.token_ids if token != "<unk>"]
    return Vocabulary(tokens, normalize=pieces)


@needs_subwords
def test_a_character_that_was_not_learned_is_unknown_without_a_token_for_it(known_pieces):
    assert known_pieces.encode(["ᚠ the"]).n_unknown.tolist() == [1]


@needs_subwords
def test_lists_of_subwords_are_taken_as_they_are(known_pieces):
    assert known_pieces.encode([["▁"], ["nothing"]]).n_unknown.tolist() == [0, 1]


@needs_subwords
def test_unknown_words_are_not_split_a_second_time(pieces):
    with pytest.raises(ValueError, match="unknown must be 'drop'"):
        Vocabulary(list(pieces.token_ids), normalize=pieces, unknown="pieces")


@needs_subwords
def test_a_corpus_of_subwords_opens_as_it_was_built(pieces, tmp_path):
    built = pacsent.words.Corpus.build(CORPUS, tmp_path / "c", min_count=1, normalize=pieces)

    opened = pacsent.words.Corpus.open(tmp_path / "c")

    assert opened.digest == built.vocabulary.digest(CORPUS)
    assert opened.digest == opened.vocabulary.digest(CORPUS)


@needs_subwords
def test_subwords_are_two_at_least():
    pytest.importorskip("tokenizers")
    with pytest.raises(ValueError, match="n_pieces must be an integer of at least 2"):
        train_pieces(CORPUS, 1)


@needs_subwords
@pytest.mark.parametrize("wrong", ["one text", [1, 2], [None], None], ids=repr)
def test_subwords_are_learned_from_lists_of_texts_only(wrong):
    pytest.importorskip("tokenizers")
    with pytest.raises((TypeError, ValueError), match="Got"):
        train_pieces(wrong, 50)


# ---- Skip-gram on subwords ----


@pytest.fixture(scope="module")
def passages(tmp_path_factory):
    """A file with three hundred passages of books."""
    path = tmp_path_factory.mktemp("books") / "text"
    texts = [passage.text for passage in load_books()[:300]]
    path.write_text("\n".join(texts) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(passages, tmp_path_factory):
    """The output of a training on five hundred subwords, and its word vectors."""
    pytest.importorskip("tokenizers")
    model = tmp_path_factory.mktemp("skipgram") / "model"
    options = "--subwords 500 --n-dims 8 --n-epochs 1 --random-state 0 --n-jobs 1"
    done = invoke("vectors", "train", passages, "-o", model, *options.split(), status=0)
    return done.output, pacsent.load(model)


@needs_subwords
def test_skip_gram_is_trained_on_subwords(trained):
    output, words = trained

    assert "subwords, 500 learned" in output
    assert words.training["normalize"] == "subwords, 500 learned"
    assert 450 < words.n_words < 500
    assert words.output_vectors is not None


@needs_subwords
def test_only_characters_that_were_not_learned_are_unknown(trained):
    _, words = trained
    encoded = words.vocabulary.encode(["Xylophonquietschen", "ᚠ"])
    assert encoded.n_unknown.tolist() == [0, 1]


@needs_subwords
@pytest.mark.parametrize("word", ["the", "in"])  # "in" is the end of a word as well
def test_a_word_of_one_subword_is_that_subword(trained, word):
    _, words = trained
    row = words.vocabulary.id_of(f"▁{word}")
    assert_array_equal(words.input(word), words.input_vectors[row])


@needs_subwords
def test_a_word_of_several_subwords_is_their_mean(trained):
    _, words = trained
    rows = words.vocabulary.encode(["xylophon"]).ids

    mean_input = words.input_vectors[rows].mean(axis=0)
    mean_output = words.output_vectors[rows].mean(axis=0)

    assert_allclose(words.input("xylophon"), mean_input, rtol=1e-5)
    assert_allclose(words.output("xylophon"), mean_output, rtol=1e-5)


@needs_subwords
def test_subwords_are_the_words_of_the_vocabulary(trained):
    _, words = trained
    assert "in" in words.vocabulary
    assert "the" not in words.vocabulary


@needs_subwords
def test_a_word_is_no_neighbour_of_itself_as_a_subword(trained):
    _, words = trained
    neighbours = [word for word, _ in words.most_similar("the")]
    assert "▁the" not in neighbours


@needs_subwords
def test_subwords_are_not_learned_from_standard_input(tmp_path):
    done = invoke("vectors", "train", "-", "--subwords", 50, "-o", tmp_path / "x", status=2)
    assert "reads the text twice. Save stdin" in done.output


@needs_subwords
def test_subwords_leave_no_choice_of_the_normalisation(passages, tmp_path):
    options = ["--subwords", 50, "--normalize", "paper", "-o", tmp_path / "x"]
    done = invoke("vectors", "train", passages, *options, status=2)
    assert "leave out" in done.output


# ---- Without the library ----


@pytest.fixture
def without_tokenizers(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)


def test_without_the_library_the_table_opens_and_text_names_it(without_tokenizers, tmp_path):
    table = np.eye(2, dtype=np.float32)
    folder = write_static(tmp_path / "m", {"[UNK]": 0, "a": 1}, {"embeddings": table})

    words = formats.read(folder)

    assert words.words == ["a"]
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[subwords\]'"):
        words.encode(["a"])


def test_without_the_library_training_subwords_names_it(without_tokenizers):
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[subwords\]'"):
        train_pieces(["a"], 5)


def split_words(text):
    return [f"▁{word}" for word in text.lower().split()]


def test_a_table_is_read_without_the_library_by_a_function_that_splits_text(tmp_path):
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    vocab = {"▁the": 0, "▁film": 1}
    folder = write_static(tmp_path / "m", vocab, {"embedding.weight": table}, kind="BPE")

    words = formats.read(folder, normalize=split_words)

    assert formats.detect(folder) == "static"
    assert words.words == ["▁the", "▁film"]
    assert words.counts is None
    assert_array_equal(words.input_vectors, table)
    assert words.vocabulary.encode(["The film"]).ids.tolist() == [0, 1]


def test_shared_rows_and_weights_of_model2vec_are_folded_in(tmp_path):
    vocab = {"[UNK]": 0, "film": 1, "##s": 2, "good": 3}
    first, second = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors = {
        "embeddings": np.stack([first, second]),
        "mapping": np.array([0, 1, 0, 1]),
        "weights": np.array([1.0, 2, 1, 0.5]),
    }
    unknown_token = {"id": 0, "content": "[UNK]"}

    words = formats.read(write_static(tmp_path / "m", vocab, tensors, added=[unknown_token]))

    assert words.words == ["film", "##s", "good"]  # all but the token for OOV words
    assert_array_equal(words.input_vectors, [2 * second, first, 0.5 * second])


IDENTITY = np.eye(4, dtype=np.float32)


def test_tokens_keep_their_numbers_and_their_unknown_token_in_sentence_transformers(tmp_path):
    """The table has a row more than tokens, as trained models may have."""
    vocab = {"[UNK]": 0, "b": 2, "a": 1}
    write_static(tmp_path / "m" / "0_StaticEmbedding", vocab, {"embedding.weight": IDENTITY})

    words = formats.read(tmp_path / "m")

    assert words.words == ["[UNK]", "a", "b"]
    assert_array_equal(words.input_vectors, IDENTITY[:3])


def test_the_tokens_of_a_unigram_model_are_numbered_by_their_place(tmp_path):
    vocab = [["a", 0.0], ["b", -1.0]]
    folder = write_static(tmp_path / "m", vocab, {"embeddings": IDENTITY}, kind="Unigram")

    assert formats.read(folder).words == ["a", "b"]


# ---- Damaged folders ----


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        ({"a": 5}, "must have a row for every token"),
        ({"a": -1}, "must be a tokenizer with its tokens"),
        ({"a": "x"}, "must be a tokenizer with its tokens"),
        ({"[UNK]": 0}, "must have tokens"),
    ],
)
def test_tokens_without_rows_are_refused(tmp_path, vocab, message):
    folder = write_static(tmp_path / "m", vocab, {"embeddings": IDENTITY})

    with pytest.raises(ValueError, match=message):
        formats.read(folder)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"other": IDENTITY}, "must have a table named embeddings"),
        ({"embeddings": IDENTITY, "mapping": np.array([7, 0])}, "mapping must name rows"),
        ({"embeddings": IDENTITY, "weights": np.ones(3)}, "weights must have one number"),
        ({"embeddings": np.full((1, 2), np.nan, np.float32)}, "finite"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path, tensors, message):
    folder = write_static(tmp_path / "m", {"a": 0}, tensors)

    with pytest.raises(ValueError, match=message):
        formats.read(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[]", r"config\.json must have"),
        ("{", r"config\.json must have"),
        ('{"max_length": 0}', "max_length must be an integ"),
        ('{"max_length": "x"}', "max_length must be an integ"),
    ],
)
def test_damaged_settings_are_refused(tmp_path, config, message):
    folder = write_static(tmp_path / "m", {"a": 0}, {"embeddings": IDENTITY})
    (folder / "config.json").write_text(config)

    with pytest.raises(ValueError, match=message):
        formats.read(folder)
