"""Encoders of other programs: objects, functions, transformers, servers, stored vectors."""

import copy
import functools
import json
import pickle
import sys
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer

import pacsent
from helpers import invoke
from http_servers import Handler, running
from pacsent import Index, TextClassifier, make_encoder
from pacsent.paper.benchmark_datasets import Dataset
from pacsent.scale import Embed, embed_shards
from pacsent.sentences import EmptySentenceWarning, ExternalEncoder, RemoteEncoder, as_encoder
from pacsent.sentences import remote_encoder as remote
from pacsent.sentences.encoder import Encoder
from pacsent.sentences.probe import PROBE
from pacsent.web import ModelSource, open_models

TEXTS = ["a glass of wine", "the cat slept", "shares fell again", "a cup of tea"]
WORDS = [f"{word} {n}" for n in range(15) for word in ("zebra", "ghost")]


def letters(texts):
    """Counts of letters: a small encoder that similar texts are near in."""
    return np.array([[text.lower().count(c) for c in "abcdefghijklmnopqrst"] for text in texts])


class WithEncode:
    source = "weights.bin"  # no URL

    def encode(self, texts):
        return letters(texts)


def best_text(index, query):
    """The text that an index finds first."""
    [hit] = index.search(query, k=1)
    return hit.text


@pytest.mark.parametrize(
    "encoder",
    [letters, WithEncode(), HashingVectorizer(n_features=32), (TEXTS, letters(TEXTS))],
    ids=["function", "encode", "transformer", "stored"],
)
def test_an_index_takes_any_encoder(encoder):
    index = Index(encoder)

    index.add(TEXTS)

    assert best_text(index, "the cat slept") == "the cat slept"


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (lambda texts: np.zeros(len(texts)), r"must give an array of shape \(n_texts, n_dims\)"),
        (lambda texts: np.zeros((1, 3)), r"Got \(1, 3\) for 10 texts"),
        (lambda texts: np.full((len(texts), 2), np.nan), "Got nan or inf for 10 of 10 texts"),
        (lambda texts: [["a"]] * len(texts), "must give an array"),
        (lambda texts: [["1", "2"]] * len(texts), "must give an array"),
        (lambda texts: np.full((len(texts), 2), "1", dtype=object), "must give an array"),
        (lambda texts: np.full((len(texts), 2), 1j), "must give an array"),
    ],
)
def test_wrong_vectors_are_refused_by_what_came(encoder, message):
    with pytest.raises(ValueError, match=message):
        as_encoder(encoder).fit()


@pytest.fixture
def input_vectors(tmp_path):
    """A file of two input vectors."""
    (tmp_path / "w.vec").write_text("2 2\nwine 1 0\ntea 0 1\n")
    return tmp_path / "w.vec"


def test_a_file_of_input_vectors_alone_is_an_encoder_by_averages(input_vectors):
    encoder = as_encoder(input_vectors)

    assert encoder.encode(["wine tea"]).tolist() == [[0.5, 0.5]]


def test_an_index_takes_a_file_of_input_vectors_alone(input_vectors):
    index = Index(input_vectors)

    index.add(["wine", "tea"])

    assert best_text(index, "tea") == "tea"


@pytest.mark.parametrize(
    "encoder",
    [
        "english",
        pacsent.load("english"),
        make_encoder("PB-neg", "english"),
        letters,
        WithEncode(),
        HashingVectorizer(n_features=32),
        RemoteEncoder("http://localhost:9/v1"),
        (TEXTS, letters(TEXTS)),
        ["english", letters],
    ],
    ids=["name", "words", "method", "function", "encode", "transformer", "url", "stored", "list"],
)
def test_whatever_is_taken_has_all_that_the_package_asks_of_an_encoder(encoder):
    asked = {name for name in vars(Encoder) if not name.startswith("_")}
    adapted = as_encoder(encoder)

    assert {"encode", "fit", "n_dims", "parts", "word_vectors"} <= asked
    assert asked <= {*dir(type(adapted)), *vars(adapted)}


def test_an_index_with_two_encoders_gives_the_same_scores_when_it_is_opened_again(tmp_path):
    index = Index(["english", letters])
    index.add(TEXTS)
    folder = pacsent.save(index, tmp_path / "index")
    opened = pacsent.load(folder, encoder=letters)

    hits = index.search("a glass of tea", k=4)
    again = opened.search("a glass of tea", k=4)

    assert [hit.id for hit in again] == [hit.id for hit in hits]
    scores = [hit.score for hit in hits]
    assert [hit.score for hit in again] == pytest.approx(scores, rel=1e-5)


@pytest.mark.parametrize("wrong", [None, 7, dict, object()])
def test_what_is_no_encoder_is_refused(wrong):
    with pytest.raises(TypeError, match="encoder must be an object with encode or transform"):
        as_encoder(wrong)


@pytest.mark.parametrize("text", ["another text", "42"])
def test_texts_without_a_stored_vector_are_refused(text):
    index = Index((TEXTS, letters(TEXTS)))

    with pytest.raises(ValueError, match="1 of 1 texts have no vector"):
        index.add([text])


def test_a_text_may_have_the_same_stored_vector_twice():
    vectors = np.array([[1.0], [2.0], [1.0]])

    encoder = as_encoder((["a", "b", "a"], vectors))

    assert encoder.encode(["a"]).tolist() == [[1.0]]


def test_a_text_with_two_stored_vectors_is_refused():
    vectors = np.array([[1.0], [2.0], [3.0]])

    with pytest.raises(ValueError, match="Got two for 'a', in rows 0 and 2"):
        as_encoder((["a", "b", "a"], vectors))


@pytest.fixture(
    scope="module",
    params=[letters, WithEncode(), ["english", letters]],
    ids=["function", "encode", "both"],
)
def animal_classifier(request):
    """A classifier of WORDS with an encoder of each kind, and with two."""
    classifier = TextClassifier(request.param, n_jobs=1)
    return classifier.fit(WORDS, ["z", "g"] * 15)


def test_a_classifier_takes_any_encoder(animal_classifier):
    labels = animal_classifier.predict(["zebras", "ghostly"])

    assert labels.tolist() == ["z", "g"]  # by their letters


def test_a_classifier_is_opened_again_with_its_encoder(animal_classifier, tmp_path):
    folder = pacsent.save(animal_classifier, tmp_path / "model")

    opened = pacsent.load(folder, encoder=letters)

    expected = animal_classifier.predict_proba(["zebras"])
    np.testing.assert_allclose(opened.predict_proba(["zebras"]), expected, rtol=1e-5)


@pytest.mark.parametrize("encoder", [letters, WithEncode()])
def test_vectors_are_as_wide_as_their_encoder_gives_them(encoder):
    assert as_encoder(encoder).encode(TEXTS).shape == (4, 20)


def test_vectors_of_two_encoders_stand_side_by_side():
    both = as_encoder(["english", letters])

    assert both.encode(TEXTS).shape == (4, 256 + 20)


def test_without_an_encoder_words_of_the_same_letters_are_unknown():
    classifier = TextClassifier(None, characters=None, n_jobs=1)
    classifier.fit(WORDS, ["z", "g"] * 15)

    probabilities = classifier.predict_proba(["zebras"])

    assert probabilities[0, 0] == pytest.approx(0.5, abs=0.1)


@pytest.fixture
def saved_index(tmp_path):
    """The folder of an index whose encoder has the name letters."""
    index = Index(ExternalEncoder(WithEncode(), name="letters"))
    index.add(TEXTS)
    return pacsent.save(index, tmp_path / "index")


def test_a_saved_index_is_opened_with_its_encoder(saved_index):
    opened = pacsent.load(saved_index, encoder=letters)

    assert best_text(opened, "a cup of tea") == "a cup of tea"


def test_a_saved_index_does_not_search_without_its_encoder(saved_index):
    opened = pacsent.load(saved_index)

    with pytest.raises(ValueError, match=r"made with the encoder letters.*encoder=\.\.\."):
        opened.search("a cup of tea")


def first_letters(texts):
    return letters(texts)[:, :5]


def letters_from_behind(texts):
    return letters(texts)[:, ::-1]


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (first_letters, "vectors of 20 numbers, as letters did"),
        (letters_from_behind, r"encoder must be letters.*Got another"),
    ],
)
def test_a_saved_index_is_opened_with_no_other_encoder(saved_index, encoder, message):
    with pytest.raises(ValueError, match=message):
        pacsent.load(saved_index, encoder=encoder)


def test_queries_are_encoded_by_an_encoder_of_their_own():
    encoded = []

    def encode_documents(texts):
        encoded.extend(texts)
        return letters(texts)

    index = Index(encode_documents, query_encoder=letters, lexical=False)
    index.add(TEXTS)
    symmetric = Index(letters, lexical=False)
    symmetric.add(TEXTS)

    hits = index.search("tea and cups", k=3)

    assert hits == symmetric.search("tea and cups", k=3)
    assert "tea and cups" not in encoded


def test_an_index_with_an_encoder_of_queries_is_certified():
    index = Index(WithEncode(), query_encoder=letters, lexical=False)
    index.add(TEXTS)

    certificate = index.certify(TEXTS, range(len(TEXTS)), k=1)

    assert certificate.n_errors == 0


def test_an_encoder_of_queries_with_other_vectors_is_refused():
    english = pacsent.load("english").sentences
    index = Index(letters, query_encoder=english)

    with pytest.raises(ValueError, match=r"query_encoder must return vectors of 20.*Got 256 inst"):
        index.search("tea")


def test_an_encoder_of_queries_is_saved_with_the_index(tmp_path):
    english = pacsent.load("english").sentences
    index = Index(english, query_encoder=english)

    folder = pacsent.save(index, tmp_path / "index")

    assert pacsent.load(folder).query_encoder.kind == "StaticEncoder"


class Embeddings(Handler):
    """OpenAI's embeddings interface; `problems` are sent first, one per request."""

    def do_POST(self):
        body = json.loads(self.body())
        self.server.keys.append(self.headers.get("Authorization"))
        self.server.paths.append(self.path)
        status, answer, *headers = self.next_problem(body)
        if not answer:
            answer = self.embeddings(body["input"])
        self.answer(answer.encode(), status, **dict(*headers))

    do_GET = do_POST

    def next_problem(self, body):
        """(status, answer) with headers or without; an answer of nothing stands for the vectors."""
        no_problem = (200, None)
        if body["input"] == list(PROBE):  # the first request of every encoder
            self.server.n_probes += 1
            return no_problem

        self.server.requests.append(body)
        problems = self.server.problems
        return problems.pop(0) if problems else no_problem

    def embeddings(self, texts):
        vectors = letters(texts).astype(float)[:, :: self.server.step]
        rows = [{"index": i, "embedding": v} for i, v in enumerate(vectors.tolist())]
        return json.dumps({"data": rows[::-1]})  # in any order


@pytest.fixture
def server():
    state = {"requests": [], "n_probes": 0, "keys": [], "paths": [], "problems": [], "step": 1}
    with running(Embeddings, **state) as made:
        made.url = f"{made.address}/v1"
        yield made


@pytest.fixture
def no_pauses(monkeypatch):
    waited = []
    monkeypatch.setattr(remote.time, "sleep", waited.append)
    return waited


@pytest.fixture
def connect(server, tmp_path):
    """connect(**options) -> an encoder by the server; all of them have one cache."""
    return functools.partial(RemoteEncoder, server.url, cache=tmp_path)


def assert_encodes(encoder, texts=TEXTS):
    """The vectors of the texts are the counts of their letters."""
    np.testing.assert_array_equal(encoder.encode(texts), letters(texts))


def test_a_server_is_asked_for_batches_with_its_key_and_model(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    encoder = RemoteEncoder(server.url + "#small", cache=tmp_path, batch_size=3)

    encoder.encode(TEXTS)

    assert [len(request["input"]) for request in server.requests] == [3, 1]
    assert server.requests[0]["model"] == "small"
    assert server.keys[0] == "Bearer secret"


def test_a_server_is_asked_once_for_each_text(server, connect):
    assert_encodes(connect(model="small"), [*TEXTS, TEXTS[0]])
    assert_encodes(connect(model="small"), TEXTS[::-1])

    [request] = server.requests
    assert sorted(request["input"]) == sorted(TEXTS)


def test_what_passes_is_tried_again(server, connect, no_pauses):
    server.problems = [(429, "slow down"), (503, "busy"), (200, "not json")]

    assert_encodes(connect())

    assert len(no_pauses) == 3


def test_a_failure_in_the_middle_keeps_what_came(server, connect, no_pauses):
    server.problems = [(200, None), (500, "broken"), (500, "broken")]
    with pytest.raises(ConnectionError, match=r"status 500 \(broken\). 12 vectors .* are kept in"):
        connect(batch_size=2, n_retries=1).encode(TEXTS)
    server.requests.clear()

    assert_encodes(connect(batch_size=2))

    [request] = server.requests
    assert request["input"] == TEXTS[2:]


def rows_of(*indexes):
    """An answer with one row per text, numbered so; None is a row without a number."""
    rows = []
    for i in indexes:
        row = {"embedding": [1.0, 2.0]}
        if i is not None:
            row["index"] = i
        rows.append(row)
    return json.dumps({"data": rows})


def four_times(embedding):
    """An answer with the same vector for each of four texts."""
    rows = [{"index": i, "embedding": embedding} for i in range(4)]
    return json.dumps({"data": rows})


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, "no key", r"status 401 \(no key\)"),
        (200, '{"data": [{"embedding": [1.0]}]}', "must answer 4 texts with as many vectors"),
        (200, rows_of(0, 0, 1, 2), "each with the index of its text"),
        (200, rows_of(0, 1, 2, 4), "each with the index of its text"),
        (200, rows_of(0, 1, 2, -1), "each with the index of its text"),
        (200, rows_of(0, 1, 2, None), "each with the index of its text"),
        (200, rows_of("0", "1", "2", "3"), "each with the index of its text"),
        (200, rows_of(False, True, 2, 3), "each with the index of its text"),
        (200, four_times([]), "finite"),
        (200, "[" * 9000, r"more than 4,000 bytes"),
    ],
)
def test_wrong_answers_are_refused_and_not_requested_again(
    server, connect, monkeypatch, no_pauses, status, answer, message
):
    monkeypatch.setattr(remote, "_MAX_ANSWER_BYTES", 1000)
    server.problems = [(status, answer)]

    with pytest.raises((ConnectionError, ValueError), match=message):
        connect().encode(TEXTS)

    assert len(server.requests) == 1
    assert not no_pauses


def test_rows_without_any_index_are_in_the_order_of_the_texts(server, connect):
    rows = [{"embedding": [float(i)] * 20} for i in range(4)]
    server.problems = [(200, json.dumps({"data": rows}))]

    vectors = connect().encode(TEXTS)

    assert vectors[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server, connect, status):
    with running(Embeddings, requests=[], n_probes=0, problems=[]) as other:
        elsewhere = {"Location": f"{other.address}/v1/embeddings"}
        server.problems = [(status, "moved", elsewhere)]

        with pytest.raises(ConnectionError, match=f"status {status}"):
            connect(key="secret").encode(TEXTS)

        assert not other.requests


@pytest.mark.parametrize("key", ["a\nb", "a\r\nHost: x", "sécret"])
def test_a_key_that_is_no_line_is_refused_and_not_shown(key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ValueError, match="key must be one line of ASCII characters") as caught:
        RemoteEncoder("http://localhost:1/v1")
    assert key not in str(caught.value)


def key_for(url, tmp_path):
    return RemoteEncoder(url, cache=tmp_path)._key


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://api.openai.com/v1", "secret"),
        ("https://eu.api.openai.com/v1", "secret"),
        ("https://evil-openai.com/v1", None),
        ("https://x.de/v1", None),
        ("http://api.openai.com/v1", None),
        ("http://eu.api.openai.com/v1", None),
        ("http://evil-openai.com/v1", None),
        ("http://x.de/v1", None),
    ],
)
def test_the_key_of_openai_is_sent_to_no_other_host(url, key, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    assert key_for(url, tmp_path) == key


@pytest.mark.parametrize("host", ["api.openai.com", "eu.api.openai.com", "evil-openai.com", "x.de"])
def test_a_key_of_ones_own_is_sent_to_every_host(host, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PACSENT_API_KEY", "own")

    assert key_for(f"http://{host}/v1", tmp_path) == "own"


def test_another_size_than_the_cache_has_is_refused(server, connect):
    first = connect()
    second = connect()
    assert len(second._cache) == 0  # both have seen an empty cache
    first.encode(TEXTS)
    server.step = 2

    with pytest.raises(ValueError, match="must have 20 numbers, as those in"):
        second.encode(["new"])

    assert_encodes(first)


def test_a_flipped_byte_of_a_stored_vector_is_requested_again(server, connect, tmp_path):
    connect().encode(TEXTS)
    [file] = tmp_path.iterdir()
    content = file.read_bytes()
    stored = [vector.astype("<f4").tobytes() for vector in letters(TEXTS)]
    rng = np.random.default_rng(0)

    for place in rng.integers(0, len(stored[0]), 32):
        start = content.index(stored[place % len(stored)])
        changed = bytearray(content)
        changed[start + place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        server.requests.clear()

        assert_encodes(connect())

        [request] = server.requests
        assert len(request["input"]) == 1


def test_a_file_that_is_no_cache_of_vectors_is_refused(connect, tmp_path):
    connect().encode(TEXTS)
    [file] = tmp_path.iterdir()
    file.write_bytes(b"something else\n" * 100)

    with pytest.raises(ValueError, match="must be a cache of vectors"):
        connect()


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://somewhere", {}, "url must begin with http"),
        ("http://a:b/v1", {}, "url must begin with http"),
        ("http://a\r\nHost: b/v1", {}, "no spaces and control characters"),
        ("http://a/v1#small\x1b[2J", {}, "no spaces and control characters"),
        ("http://a", {"batch_size": -1}, "batch_size must be at least 1. Got -1"),
        ("http://a", {"batch_size": 2.5}, "batch_size must be at least 1. Got 2.5"),
        ("http://a", {"n_retries": -1}, "n_retries must be at least 0. Got -1"),
        ("http://a", {"timeout": 1e12}, "timeout must be above 0 and at most 86,400 seconds"),
        ("http://a", {"timeout": float("nan")}, "timeout must be above 0"),
        ("http://a", {"key": b"x"}, "key must be a str. Got bytes instead"),
    ],
)
def test_options_of_a_remote_encoder_are_checked(url, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RemoteEncoder(url, **options)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@host/v1",
        "http://hunter2@host/v1#small",
        "http://user:hunter2?x@host/v1",
        "http://user:a/hunter2@host/v1",
    ],
)
def test_a_url_with_a_password_is_refused_and_the_password_not_shown(url, tmp_path):
    with pytest.raises(ValueError, match="url must") as caught:
        as_encoder(url)
    assert "hunter2" not in str(caught.value)

    (tmp_path / "texts.txt").write_text("a text")
    output = invoke("embed", url, tmp_path / "texts.txt").output
    assert "hunter2" not in output


def test_parameters_of_a_url_stand_behind_the_path(server, tmp_path):
    RemoteEncoder(f"{server.url}/?api-version=2&api_key=pw#small", cache=tmp_path).encode(TEXTS)

    assert set(server.paths) == {"/v1/embeddings?api-version=2&api_key=pw"}
    assert server.requests[0]["model"] == "small"


def test_parameters_of_a_url_are_not_saved_with_a_model_except_the_version(server, url, tmp_path):
    encoder = f"{server.url}?api-version=2&api_key=hunter2#small"
    classifier = TextClassifier(encoder).fit(WORDS, ["z", "g"] * 15)

    folder = pacsent.save(classifier, tmp_path / "model")

    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"hunter2" not in content
    assert f"{server.url}?api-version=2#small".encode() in content
    opened = pacsent.load(folder, encoder=encoder)
    assert opened.predict(["zebras"]).tolist() == ["z"]


def test_a_job_on_a_url_writes_and_prints_no_parameter_of_it(server, url, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    encoder = f"{server.url}?api_key=hunter2#small"

    done = invoke("embed", encoder, tmp_path / "texts.txt", "-o", f"{tmp_path}/out/", "--json")

    assert done.exit_code == 0 and "hunter2" not in done.output
    assert "hunter2" not in (tmp_path / "out" / "manifest.json").read_text()


def test_a_served_url_is_named_without_its_parameters(server, url):
    [model] = open_models([ModelSource(f"{server.url}?api_key=hunter2#small")])
    assert model.name == "v1#small"


def itself(encoder):
    return encoder


@pytest.mark.parametrize("dump", [pickle.dump, joblib.dump])
@pytest.mark.parametrize("make", [itself, as_encoder, Index, TextClassifier])
def test_a_pickle_has_neither_the_key_nor_the_parameters_of_the_url(server, tmp_path, make, dump):
    address = f"{server.url}?api_key=hunter2"
    encoder = RemoteEncoder(address, key="sk-SECRET", cache=tmp_path / "cache")

    with (tmp_path / "pickle").open("wb") as file:
        dump(make(encoder), file)

    content = (tmp_path / "pickle").read_bytes()
    assert b"sk-SECRET" not in content
    assert b"hunter2" not in content


def test_an_unpickled_encoder_has_no_key(connect):
    content = pickle.dumps(connect(key="first"))

    with pytest.raises(ValueError, match=r"was pickled, without its key\. Set PACSENT_API_KEY"):
        pickle.loads(content).encode(TEXTS)


def test_an_unpickled_encoder_reads_its_key_from_the_environment(server, connect, monkeypatch):
    content = pickle.dumps(connect(key="first"))
    monkeypatch.setenv("PACSENT_API_KEY", "second")

    pickle.loads(content).encode(TEXTS)

    assert set(server.keys) == {"Bearer second"}


def test_an_unpickled_encoder_says_which_parameters_of_its_url_are_missing(server, tmp_path):
    encoder = RemoteEncoder(f"{server.url}?tenant=pw&api-version=2", cache=tmp_path)
    content = pickle.dumps(encoder)

    with pytest.raises(ValueError, match=r"without its parameters of its URL \(tenant\)"):
        pickle.loads(content).encode(TEXTS)


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy])
def test_a_copy_keeps_the_key(server, connect, copy_of):
    encoder = connect(key="own")

    copy_of(encoder).encode(TEXTS)

    assert set(server.keys) == {"Bearer own"}


def test_a_clone_of_a_classifier_keeps_the_key(server, connect):
    classifier = TextClassifier(connect(key="own"))

    clone(classifier).encoder.encode(TEXTS)

    assert set(server.keys) == {"Bearer own"}


def test_a_server_that_repeats_the_key_does_not_make_it_a_message(server, connect):
    server.problems = [(401, "the key sk-SECRET is wrong")]

    with pytest.raises(ConnectionError, match=r"the key \.\.\. is wrong"):
        connect(key="sk-SECRET").encode(TEXTS)


def test_a_warm_cache_and_another_model_behind_the_url_are_not_mixed(server, connect):
    connect().encode(TEXTS)
    server.step = -1  # another model of the same size and name

    again = connect()

    assert_encodes(again)  # all by the first model
    with pytest.raises(ValueError, match=r"must be the model whose vectors are in .*sqlite"):
        again.encode(["a new text"])


def test_the_server_is_compared_with_the_cache_once(server, connect):
    encoder = connect(batch_size=1)

    for text in TEXTS:
        encoder.encode([text])

    assert server.n_probes == 1


def test_a_cache_without_the_vectors_that_tell_models_apart_is_refused(connect):
    encoder = connect()
    encoder._cache.add(TEXTS, letters(TEXTS))

    with pytest.raises(ValueError, match="has 4 vectors, and none of the ten sentences"):
        encoder.encode(["a new text"])


def test_a_model_is_not_opened_with_the_vectors_that_another_left_in_the_cache(
    server, url, tmp_path
):
    index = Index(url)
    index.add(TEXTS)
    pacsent.save(index, tmp_path / "index")
    [cache] = (tmp_path / "cache").rglob("*.sqlite")
    cache.unlink()
    server.step = -1
    as_encoder(url).encode(TEXTS)  # fills the cache
    server.step = 1

    with pytest.raises(ValueError, match="must be the model whose vectors are in"):
        pacsent.load(tmp_path / "index", encoder=url)


@pytest.mark.parametrize(
    "embedding", [["1", "2"], [True, False], ["1", 2.0], [True, 2.0], [None, 1.0], [10**400, 1]]
)
def test_strings_and_booleans_of_a_server_are_no_vectors(server, connect, embedding):
    server.problems = [(200, four_times(embedding))]

    with pytest.raises(ValueError, match="as many vectors of finite numbers"):
        connect().encode(TEXTS)


def test_the_sentences_of_the_probe_have_no_stored_vector():
    stored = as_encoder((TEXTS, letters(TEXTS)))

    with pytest.raises(ValueError, match="10 of 10 texts have no vector"):
        stored.encode(list(PROBE))


def test_the_sentences_of_the_probe_may_be_given_vectors():
    vectors = np.arange(20.0).reshape(10, 2)

    encoder = as_encoder((list(PROBE), vectors))

    np.testing.assert_array_equal(encoder.encode(list(PROBE)), vectors)


def test_masked_values_of_an_encoder_are_no_numbers():
    vectors = np.ma.masked_array(np.ones((10, 2)), mask=np.eye(10, 2))
    with pytest.raises(ValueError, match="Got nan or inf for 2 of 10 texts"):
        as_encoder(lambda texts: vectors).fit()


@pytest.fixture
def url(server, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return server.url + "#small"


@pytest.fixture
def forget_requests(server, monkeypatch):
    """forget_requests() -> from now on the caller has a key, and the server records what is sent.

    Neither texts nor the key are sent to the URL that a folder from somebody else names: the caller
    must name it, and it must be the same model.
    """

    def forget():
        monkeypatch.setenv("OPENAI_API_KEY", "sk-VICTIM")
        server.requests.clear()
        server.keys.clear()

    return forget


@pytest.fixture
def somebodys_index(url, tmp_path, forget_requests):
    """The folder of an index that somebody made with the encoder of the URL."""
    index = Index(url)
    index.add(TEXTS)
    folder = pacsent.save(index, tmp_path / "index")
    forget_requests()
    return folder


@pytest.fixture
def somebodys_classifier(url, tmp_path, forget_requests):
    """The folder of a classifier that somebody made with the encoder of the URL and another."""
    classifier = TextClassifier([url, "english"]).fit(WORDS, ["z", "g"] * 15)
    folder = pacsent.save(classifier, tmp_path / "words")
    forget_requests()
    return folder


def made_with(server):
    return rf"made with the encoder {server.url}#small, which is not saved with it"


def assert_nothing_was_sent(server):
    assert server.requests == []
    assert server.keys == []


def test_an_index_from_somebody_else_sends_nothing_to_the_url_it_names(server, somebodys_index):
    opened = pacsent.load(somebodys_index)

    with pytest.raises(ValueError, match=made_with(server)):
        opened.search("my secret text")
    assert_nothing_was_sent(server)


def test_a_classifier_from_somebody_else_sends_nothing_to_the_url_it_names(
    server, somebodys_classifier
):
    steps = pacsent.storage.check(somebodys_classifier)
    opened = pacsent.load(somebodys_classifier)

    assert all(step["ok"] for step in steps)
    with pytest.raises(ValueError, match=made_with(server)):
        opened.predict(["my secret text"])
    assert_nothing_was_sent(server)


def test_texts_and_the_key_are_sent_to_a_url_that_the_caller_names(server, url, somebodys_index):
    opened = pacsent.load(somebodys_index, encoder=url)

    assert best_text(opened, "the cat slept") == "the cat slept"
    assert server.keys[0] == "Bearer sk-VICTIM"


def test_a_warm_cache_does_not_hide_another_model_behind_the_url(server, url, somebodys_index):
    as_encoder(url).encode(["the cat slept"])  # the cache is warm
    server.step = -1  # another model of the same size

    with pytest.raises(ValueError, match=r"encoder must be .*small.*Got another"):
        pacsent.load(somebodys_index, encoder=url)


def test_a_server_takes_any_encoder(url):
    [model] = open_models([ModelSource(url, name="letters")])

    assert model.description()["dimensions"] == 20
    np.testing.assert_array_equal(model.posteriors(TEXTS).means, letters(TEXTS))


def test_many_files_are_embedded_by_any_encoder(url):
    embed = Embed(url).load()

    answer = embed([*TEXTS, "!"])

    np.testing.assert_array_equal(answer.columns["mean"][:4], letters(TEXTS))
    assert answer.n_empty == 1


def test_many_files_are_not_embedded_by_a_function():
    with pytest.raises(TypeError, match=r"Got function instead\. Save it: pacsent\.save"):
        embed_shards(letters, ["a.txt"], "vectors")


def test_a_score_of_the_paper_takes_any_encoder(url):
    labels = np.array([1, 0] * 15)
    test_labels = np.array([1, 0])
    dataset = Dataset("toy", WORDS, labels, ["zebras", "ghosts"], test_labels, ("g", "z"), "")

    for method in (letters, url):
        assert pacsent.evaluate(method, dataset, seeds=(0,), Cs=(1.0,)).accuracy == 1.0


@pytest.fixture
def command(tmp_path, monkeypatch):
    """command(line) -> what the command did, in a folder with files of texts."""
    labels = ["zebras", "ghosts"] * 15
    rows = [f"{label}\t{text}" for label, text in zip(labels, WORDS)]
    (tmp_path / "labelled.txt").write_text("\n".join(rows[:8]))
    (tmp_path / "all.txt").write_text("\n".join(rows))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    monkeypatch.chdir(tmp_path)

    return lambda line: invoke(*line.split())


@pytest.fixture
def saved_models(tmp_path):
    """A classifier, an encoder and an index that were made with an encoder named letters."""
    encoder = ExternalEncoder(WithEncode(), name="letters")
    labels = ["zebras", "ghosts"] * 15
    classifier = TextClassifier(encoder).fit(WORDS[8:], labels[8:])
    index = Index(encoder)
    index.add(WORDS)

    pacsent.save(classifier, tmp_path / "classifier")
    pacsent.save(encoder, tmp_path / "letters")
    pacsent.save(index, tmp_path / "animals")


@pytest.mark.slow
def test_vectors_are_written_by_an_encoder_behind_a_url(command, url):
    done = command(f"embed {url} texts.txt -o v.npy")

    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load("v.npy"), letters(TEXTS))


@pytest.mark.slow
def test_a_map_is_drawn_by_an_encoder_behind_a_url(command, url, tmp_path):
    done = command(f"map {url} texts.txt -o map.html")

    assert done.exit_code == 0, done.output
    assert "a cup of tea" in (tmp_path / "map.html").read_text()


@pytest.mark.slow
def test_an_index_is_made_and_searched_with_an_encoder_behind_a_url(command, url):
    made = command(f"index {url} texts.txt -o index")
    found = command(f"search index the_cat_slept -k 1 --encoder {url}")

    assert made.exit_code == 0, made.output
    assert found.exit_code == 0, found.output
    assert "the cat slept" in found.output


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "predict classifier texts.txt",
        "predict classifier texts.txt -o answers/",
        "certify classifier labelled.txt",
        "explain classifier zebra",
        "report classifier labelled.txt -o page.html",
        "search animals zebra -k 1",
        "embed letters texts.txt",
        "embed letters texts.txt -o vectors/",
    ],
)
def test_every_command_takes_the_encoder_of_a_model(command, saved_models, url, line):
    without = command(line)
    assert without.exit_code == 1
    assert "made with the encoder letters" in without.output
    assert "load(path, encoder=...), or --encoder PATH|URL" in without.output

    done = command(f"{line} --encoder {url}")
    assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("embed URL texts.txt --pairs texts.txt --quiet", 0, "1.0000\n" * 4),
        ("embed URL texts.txt --method PB-L2", 2, "--method is for word vectors"),
        ("embed letters texts.txt --encoder english", 1, "must give vectors of 20 numbers"),
        ("paper score URL all.txt --seeds 1 --quiet", 0, "on all: 1.0000"),
    ],
)
def test_commands_take_an_encoder_as_their_model(command, saved_models, url, line, status, message):
    done = command(line.replace("URL", url))

    assert done.exit_code == status, done.output
    assert message in done.output


@pytest.fixture
def transformer_folder(tmp_path, monkeypatch):
    """A folder as sentence-transformers saves its models, and a library that opens it."""
    library = SimpleNamespace(SentenceTransformer=lambda path: WithEncode())
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)

    folder = tmp_path / "st"
    folder.mkdir()
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    return folder


def test_a_folder_that_only_sentence_transformers_can_open_is_an_encoder(
    transformer_folder, tmp_path
):
    index = Index(str(transformer_folder))
    index.add(TEXTS)
    pacsent.save(index, tmp_path / "index")
    search = ["search", tmp_path / "index", "the cat slept", "-k", "1"]

    without = invoke(*search)
    done = invoke(*search, "--encoder", transformer_folder, status=0)

    assert "made with the encoder st" in without.output
    assert "the cat slept" in done.output


@pytest.fixture(scope="module")
def english():
    return pacsent.load("english")


def test_the_english_model_opens_its_encoder_when_it_is_first_used():
    opened = pacsent.load("english")

    assert not hasattr(opened._sentences, "posterior")


def test_the_english_model_encodes_and_compares(english):
    [cosines] = english.similarity(["a sleeping kitten"], TEXTS)

    assert cosines.argmax() == 1
    assert english.encode(TEXTS).shape == (4, 256)


def test_the_english_model_encodes_an_unknown_word_by_its_pieces(english):
    assert english.encode(["supercalifragilisticexpialidocious"]).any()


def saved_and_loaded(model, tmp_path):
    folder = pacsent.save(model, tmp_path / "copy")
    return pacsent.load(folder)


def pickled_and_unpickled(model, tmp_path):
    content = pickle.dumps(model)
    return pickle.loads(content)


def opened_by_name(model, tmp_path):
    return as_encoder("english")


@pytest.mark.parametrize("copied", [saved_and_loaded, pickled_and_unpickled, opened_by_name])
def test_a_copy_of_the_english_model_encodes_as_it_does(english, tmp_path, copied):
    other = copied(english, tmp_path)

    np.testing.assert_array_equal(other.encode(TEXTS), english.encode(TEXTS))


def test_a_method_on_the_english_words_is_saved_without_the_encoder(english, tmp_path):
    method = make_encoder("Average", english).fit([])

    opened = saved_and_loaded(method, tmp_path)

    assert opened.word_vectors.sentences is None


@pytest.fixture
def english_words(english):
    """The words of the English model without its encoder of sentences."""
    return english.replace(sentences=None)


def test_words_without_an_encoder_of_sentences_do_not_encode(english_words):
    with pytest.raises(ValueError, match=r"make_encoder\('SIF-sum', words\)"):
        english_words.encode(TEXTS)


def test_words_without_an_encoder_of_sentences_are_summed(english_words):
    assert as_encoder(english_words).method_name == "SIF-sum"


def test_search_in_english_adds_the_words_of_long_texts():
    both = Index("english").encoder
    long_text = " ".join(["wine and tea"] * 20)

    short, long = both.encode(["wine", long_text])

    assert length_of_words(short) == pytest.approx(1 / 50, rel=1e-3)
    assert length_of_words(long) == pytest.approx(1.0, rel=1e-3)
    np.testing.assert_allclose(np.linalg.norm([short, long], axis=1), 1.0, rtol=1e-5)


def length_of_words(vector):
    """The length of the part of the words, in lengths of that of the sentence."""
    sentence, words = np.split(vector, [256])
    return np.linalg.norm(words) / np.linalg.norm(sentence)


def test_one_warning_names_the_rows_of_the_user(monkeypatch):
    monkeypatch.setattr("pacsent.sentences.external_encoders._BATCH_TEXTS", 2)
    index = Index("english")
    message = r"2 of 5 texts have no vector \(row 1, 4, counted"

    with pytest.warns(EmptySentenceWarning, match=message) as caught:
        index.add(["a good film", "[]", "red wine", "the cat slept", ""])

    about_vectors = [each for each in caught if issubclass(each.category, EmptySentenceWarning)]
    assert len(about_vectors) == 1
