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


def trained(kind):
    """A small tokenizer of a kind, trained here."""
    library = pytest.importorskip("tokenizers", reason="the extra [subwords] is not installed")
    special = ["[UNK]", "[PAD]"]
    splitters = library.pre_tokenizers
    splitter, model, options = {
        "WordPiece": (splitters.BertPreTokenizer(), {"unk_token": "[UNK]"}, {"vocab_size": 220}),
        "BPE": (splitters.ByteLevel(), {}, {"vocab_size": 400}),
        "Unigram": (splitters.Metaspace(), {}, {"vocab_size": 300, "unk_token": "[UNK]"}),
        "WordLevel": (splitters.Whitespace(), {"unk_token": "[UNK]"}, {}),
    }[kind]
    if kind == "BPE":
        options["initial_alphabet"] = splitters.ByteLevel.alphabet()
    else:
        options["special_tokens"] = special
    tokenizer = library.Tokenizer(getattr(library.models, kind)(**model))
    tokenizer.pre_tokenizer = splitter
    if kind == "WordPiece":
        tokenizer.normalizer = library.normalizers.BertNormalizer()
    trainer = {"BPE": "Bpe"}.get(kind, kind) + "Trainer"
    tokenizer.train_from_iterator(CORPUS, getattr(library.trainers, trainer)(**options))
    if kind != "BPE":
        tokenizer.post_processor = library.processors.TemplateProcessing(
            single="[PAD] $A [PAD]", special_tokens=[("[PAD]", tokenizer.token_to_id("[PAD]"))]
        )
        tokenizer.enable_padding(pad_token="[PAD]", pad_id=tokenizer.token_to_id("[PAD]"))
    tokenizer.enable_truncation(7)  # as models of transformers have it
    return tokenizer


def table_for(tokenizer, n_dims=16):
    rng = np.random.default_rng(0)
    return rng.normal(size=(tokenizer.get_vocab_size(), n_dims)).astype(np.float32)


KINDS = ["WordPiece", "BPE", "Unigram", "WordLevel"]


@needs_static
@pytest.mark.parametrize(
    "settings", [{}, {"normalize": True}, {"max_length": 5}, {"max_length": None}]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_model2vec_gives_its_vectors(kind, settings, tmp_path):
    model2vec = pytest.importorskip("model2vec", reason="the extra [bench] is not installed")
    tokenizer = trained(kind)
    table = table_for(tokenizer)
    model2vec.StaticModel(table, tokenizer, **settings).save_pretrained(tmp_path / "m")
    theirs = model2vec.StaticModel.from_pretrained(tmp_path / "m").encode(TEXTS)
    words = pacsent.load(tmp_path / "m")
    with pytest.warns(UserWarning, match="OOV words only"):
        ours = words.encode(TEXTS)
    if settings == {"max_length": None}:  # thousands of float32 numbers: theirs is the less exact
        ids = model2vec.StaticModel.from_pretrained(tmp_path / "m").tokenize(TEXTS[9:12])
        theirs[9:12] = [table[i].sum(axis=0, dtype=np.float64) / max(1, len(i)) for i in ids]
    assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert not ours[0].any() and (kind in ("BPE", "Unigram") or not ours[6].any())
    one_by_one = [words.encode([text])[0] for text in TEXTS[3:6]]
    assert_allclose(one_by_one, theirs[3:6], atol=1e-5)


@needs_static
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_shared_rows_weights_and_other_numbers_are_read(dtype, tmp_path):
    model2vec = pytest.importorskip("model2vec", reason="the extra [bench] is not installed")
    tokenizer = trained("WordPiece")
    n = tokenizer.get_vocab_size()
    rng = np.random.default_rng(1)
    model = model2vec.StaticModel(
        (20 * table_for(tokenizer)[:50]).astype(dtype), tokenizer, normalize=True,
        weights=rng.random(n).astype(np.float32), token_mapping=rng.integers(50, size=n),
    )  # fmt: skip
    model.save_pretrained(tmp_path / "m")
    theirs = model2vec.StaticModel.from_pretrained(tmp_path / "m").encode(TEXTS[3:6])
    # model2vec answers in float16 where the table is so
    atol = 1e-3 if dtype == "float16" else 1e-5
    assert_allclose(pacsent.load(tmp_path / "m").encode(TEXTS[3:6]), theirs, atol=atol)


@needs_static
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_sentence_transformers_gives_its_vectors(kind, unit, tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="the extra [bench] is not there")
    from sentence_transformers import models

    tokenizer = trained(kind)
    modules = [models.StaticEmbedding(tokenizer, embedding_weights=table_for(tokenizer))]
    modules += [models.Normalize()] * unit
    library.SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "m"))
    theirs = library.SentenceTransformer(str(tmp_path / "m"), device="cpu").encode(TEXTS)
    encoder = pacsent.sentences.as_encoder(tmp_path / "m")
    assert not isinstance(encoder, pacsent.sentences.ExternalEncoder)  # opened by pacsent itself
    with pytest.warns(UserWarning, match="OOV words only"):
        ours = encoder.encode(TEXTS)
    assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_other_modules_are_left_to_sentence_transformers(tmp_path):
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (tmp_path / "tokenizer.json").write_text("{}")
    for kinds, settings, ours in (
        (["StaticEmbedding"], {}, True),
        (["StaticEmbedding", "Normalize"], {}, True),
        (["StaticEmbedding", "Dense"], {}, False),
        (["Transformer", "Pooling"], {}, False),
        (["StaticEmbedding"], prompts, False),
    ):
        modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
        assert pacsent.storage.is_model_name(tmp_path) == ours


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as model2vec writes it, normalised."""
    tokenizer = trained("Unigram")
    place = tmp_path_factory.mktemp("static") / "potion"
    place.mkdir()
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "config.json").write_text('{"normalize": true}')
    write_tensors(place / "model.safetensors", {"embeddings": table_for(tokenizer)})
    return place


@needs_subwords
def test_saved_and_opened_again_it_gives_the_same(folder, tmp_path):
    words = pacsent.load(folder)
    again = pacsent.load(pacsent.save(words, tmp_path / "saved"))
    assert again.vocabulary.normalize_name == "tokenizer"
    assert not (tmp_path / "saved" / "sentences").exists()  # the table is not written twice
    assert all(step["ok"] for step in pacsent.storage.check(tmp_path / "saved"))
    encoder = pacsent.load(pacsent.save(pacsent.sentences.as_encoder(words), tmp_path / "encoder"))
    for copy in (again, pickle.loads(pickle.dumps(words)), encoder):
        assert_array_equal(copy.encode(CORPUS[:6]), words.encode(CORPUS[:6]))


@needs_subwords
def test_classifier_index_and_commands_take_the_folder(folder, tmp_path):
    texts, labels = CORPUS, ["en", "de", "ja", "zh", "en", "fr"] * 20
    classifier = pacsent.TextClassifier(folder).fit(texts, labels)
    assert classifier.predict(["the dog and the fox"]) == ["en"]
    pacsent.save(classifier, tmp_path / "classifier")
    again = pacsent.load(tmp_path / "classifier")
    assert again.predict(["the dog and the fox"]) == ["en"]
    index = pacsent.Index(folder)
    index.add(texts[:6])
    assert index.search(texts[3], 1)[0].text == texts[3]
    (tmp_path / "in.txt").write_text("\n".join(texts[:6]) + "\n")
    invoke("embed", folder, tmp_path / "in.txt", "-o", tmp_path / "v.npy", status=0)
    vectors = np.load(tmp_path / "v.npy")
    assert_allclose(vectors, pacsent.load(folder).encode(texts[:6]), atol=1e-6)


@needs_subwords
def test_pieces_are_learned_and_no_word_is_unknown(tmp_path):
    pytest.importorskip("tokenizers")
    pieces = train_pieces(CORPUS, 200)
    assert pieces("Don't FILM") == pieces("don’t film,")  # as normalize="unicode" reads text
    assert "".join(pieces("the \ud800 dog")) == "▁the▁dog"  # half a character is no reason to stop
    tokens = list(pieces.token_ids)
    vocabulary = Vocabulary(tokens, normalize=pieces)
    encoded = vocabulary.encode(["filmliebhaber warten", "今天好天"])
    assert not encoded.n_unknown.any() and vocabulary.words[encoded.ids[-1]] != "<unk>"
    known = Vocabulary([t for t in tokens if t != "<unk>"], normalize=pieces)
    assert known.encode(["ᚠ the"]).n_unknown.tolist() == [1]
    assert known.encode([["▁"], ["nothing"]]).n_unknown.tolist() == [0, 1]  # lists as they are
    with pytest.raises(ValueError, match="unknown must be 'drop'"):
        Vocabulary(tokens, normalize=pieces, unknown="pieces")
    with pytest.raises(ValueError, match="n_pieces must be an integer of at least 2"):
        train_pieces(CORPUS, 1)
    built = pacsent.words.Corpus.build(CORPUS, tmp_path / "c", min_count=1, normalize=pieces)
    again = pacsent.words.Corpus.open(tmp_path / "c")
    assert again.digest == again.vocabulary.digest(CORPUS) == built.vocabulary.digest(CORPUS)
    for wrong in ("one text", [1, 2], [None], None):
        with pytest.raises((TypeError, ValueError), match="Got"):
            train_pieces(wrong, 50)


@needs_subwords
def test_skip_gram_is_trained_on_pieces(tmp_path):
    pytest.importorskip("tokenizers")
    passages = [text for _, _, text in load_books()][:300]
    text, model = tmp_path / "text", tmp_path / "model"
    text.write_text("\n".join(passages) + "\n")
    options = "--subwords 500 --n-dims 8 --n-epochs 1 --random-state 0 --n-jobs 1"
    done = invoke("vectors", "train", text, "-o", model, *options.split())
    assert done.exit_code == 0 and "subwords, 500 learned" in done.output, done.output
    words = pacsent.load(model)
    assert 450 < words.n_words < 500 and words.output_vectors is not None
    assert words.vocabulary.encode(["Xylophonquietschen", "ᚠ"]).n_unknown.tolist() == [0, 1]
    assert words.training["normalize"] == "subwords, 500 learned"
    # a word of one piece is that piece, a word of several their mean
    for word in ("the", "in"):  # "in" is the end of a word as well
        row = words.vocabulary.id_of(f"▁{word}")
        assert_array_equal(words.input(word), words.input_vectors[row])
    assert "in" in words.vocabulary and "the" not in words.vocabulary
    assert "▁the" not in [word for word, _ in words.most_similar("the")]
    rows = words.vocabulary.encode(["xylophon"]).ids
    for table, vector_of in (
        (words.input_vectors, words.input),
        (words.output_vectors, words.output),
    ):
        assert_allclose(vector_of("xylophon"), table[rows].mean(axis=0), rtol=1e-5)
    for wrong, message in (
        (["-", "--subwords", 50], "reads the text twice. Save stdin"),
        ([text, "--subwords", 50, "--normalize", "paper"], "leave out"),
    ):
        done = invoke("vectors", "train", *wrong, "-o", tmp_path / "x")
        assert done.exit_code == 2 and message in done.output


def test_without_the_library_the_table_opens_and_text_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    model = {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    write_tensors(tmp_path / "model.safetensors", {"embeddings": np.eye(2, dtype=np.float32)})
    words = formats.read(tmp_path)
    assert words.words == ["a"]
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[subwords\]'"):
        words.encode(["a"])
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[subwords\]'"):
        train_pieces(["a"], 5)


def static(folder, vocab, model="WordPiece", added=(), **tensors):
    """A folder with a tokenizer and a table, as both libraries write one."""
    folder.mkdir(parents=True)
    tokens = [{"id": i, "content": token} for token, i in added]
    model = {"type": model, "vocab": vocab, "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": tokens}))
    write_tensors(folder / "model.safetensors", tensors)
    return folder


def test_a_table_is_read_without_the_library_by_a_function_that_splits_text(tmp_path):
    vocab = {"▁the": 0, "▁film": 1}
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    folder = static(tmp_path / "m", vocab, model="BPE", **{"embedding.weight": table})
    assert formats.detect(folder) == "static"
    words = formats.read(folder, normalize=lambda text: [f"▁{w}" for w in text.lower().split()])
    assert words.words == ["▁the", "▁film"] and words.counts is None
    assert_array_equal(words.input_vectors, table)
    assert words.vocabulary.encode(["The film"]).ids.tolist() == [0, 1]


def test_shared_rows_and_weights_of_model2vec_are_folded_in(tmp_path):
    vocab = {"[UNK]": 0, "film": 1, "##s": 2, "good": 3}
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    weights = {"mapping": np.array([0, 1, 0, 1]), "weights": np.array([1.0, 2, 1, 0.5])}
    folder = static(tmp_path / "m", vocab, added=[("[UNK]", 0)], embeddings=table, **weights)
    words = formats.read(folder)
    assert words.words == ["film", "##s", "good"]  # all but the token for OOV words
    np.testing.assert_array_equal(words.input_vectors, [2 * table[1], table[0], 0.5 * table[1]])


def test_tokens_keep_their_numbers_and_their_unknown_token_in_sentence_transformers(tmp_path):
    table = np.eye(4, dtype=np.float32)  # a row more than tokens, as trained models may have
    vocab, rows = {"[UNK]": 0, "b": 2, "a": 1}, {"embedding.weight": table}
    words = formats.read(static(tmp_path / "m" / "0_StaticEmbedding", vocab, **rows).parent)
    assert words.words == ["[UNK]", "a", "b"]
    np.testing.assert_array_equal(words.input_vectors, table[:3])
    unigram = static(tmp_path / "u", [["a", 0.0], ["b", -1.0]], model="Unigram", embeddings=table)
    assert formats.read(unigram).words == ["a", "b"]


def test_a_damaged_static_folder_is_refused_in_one_line(tmp_path):
    eye, nan = np.eye(2, dtype="f4"), np.full((1, 2), np.nan, "f4")
    for number, (vocab, tensors, message) in enumerate(
        (
            ({"a": 5}, {"embeddings": eye}, "must have a row for every token"),
            ({"a": -1}, {"embeddings": eye}, "must be a tokenizer with its tokens"),
            ({"a": "x"}, {"embeddings": eye}, "must be a tokenizer with its tokens"),
            ({"a": 0}, {"other": eye}, "must have a table named embeddings"),
            ({"[UNK]": 0}, {"embeddings": eye}, "must have tokens"),
            ({"a": 0}, {"embeddings": eye, "mapping": np.array([7, 0])}, "mapping must name rows"),
            ({"a": 0}, {"embeddings": eye, "weights": np.ones(3)}, "weights must have one number"),
            ({"a": 0}, {"embeddings": nan}, "finite"),
        )
    ):
        with pytest.raises(ValueError, match=message):
            formats.read(static(tmp_path / str(number), vocab, **tensors))
    folder = static(tmp_path / "n", {"a": 0}, embeddings=np.eye(1, dtype="f4"))
    for config in ("[]", "{", '{"max_length": 0}', '{"max_length": "x"}'):
        (folder / "config.json").write_text(config)
        with pytest.raises(ValueError, match=r"config.json must have|max_length must be an integ"):
            formats.read(folder)
