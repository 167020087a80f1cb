"""Encoders of other programs: objects, functions, transformers, servers, stored vectors."""

import copy
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


@pytest.mark.parametrize(
    "encoder",
    [letters, WithEncode(), HashingVectorizer(n_features=32), (TEXTS, letters(TEXTS))],
    ids=["function", "encode", "transformer", "stored"],
)
def test_an_index_takes_any_encoder(encoder):
    index = Index(encoder)
    index.add(TEXTS)
    assert index.search("the cat slept", k=1)[0].text == "the cat slept"


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


def test_a_file_of_input_vectors_alone_is_an_encoder_by_averages(tmp_path):
    (tmp_path / "w.vec").write_text("2 2\nwine 1 0\ntea 0 1\n")
    index = Index(tmp_path / "w.vec")
    index.add(["wine", "tea"])
    assert index.search("tea", 1)[0].id == 1
    assert as_encoder(tmp_path / "w.vec").encode(["wine tea"]).tolist() == [[0.5, 0.5]]


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
    opened = pacsent.load(pacsent.save(index, tmp_path / "index"), encoder=letters)

    hits = index.search("a glass of tea", k=4)
    again = opened.search("a glass of tea", k=4)

    assert [hit.id for hit in again] == [hit.id for hit in hits]
    np.testing.assert_allclose([h.score for h in again], [h.score for h in hits], rtol=1e-5)


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


@pytest.mark.parametrize(
    "encoder", [letters, WithEncode(), ["english", letters]], ids=["function", "encode", "both"]
)
def test_a_classifier_takes_any_encoder(encoder, tmp_path):
    classifier = TextClassifier(encoder, n_jobs=1).fit(WORDS, ["z", "g"] * 15)
    assert classifier.predict(["zebras", "ghostly"]).tolist() == ["z", "g"]  # by their letters
    vectors = as_encoder(encoder).encode(TEXTS)
    assert vectors.shape == (4, 20 + 256 * isinstance(encoder, list))  # side by side
    pacsent.save(classifier, tmp_path / "model")
    opened = pacsent.load(tmp_path / "model", encoder=letters)
    np.testing.assert_allclose(
        opened.predict_proba(["zebras"]), classifier.predict_proba(["zebras"]), rtol=1e-5
    )


def test_without_an_encoder_words_of_the_same_letters_are_unknown():
    classifier = TextClassifier(None, characters=None, n_jobs=1).fit(WORDS, ["z", "g"] * 15)
    assert classifier.predict_proba(["zebras"])[0, 0] == pytest.approx(0.5, abs=0.1)


@pytest.fixture
def saved_index(tmp_path):
    """The folder of an index whose encoder has the name letters."""
    index = Index(ExternalEncoder(WithEncode(), name="letters"))
    index.add(TEXTS)
    return pacsent.save(index, tmp_path / "index")


def test_a_saved_index_is_opened_with_its_encoder(saved_index):
    opened = pacsent.load(saved_index, encoder=letters)

    [hit] = opened.search("a cup of tea", k=1)
    assert hit.text == "a cup of tea"


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

    opened = pacsent.load(pacsent.save(index, tmp_path / "index"))

    assert opened.query_encoder.kind == "StaticEncoder"


class Embeddings(Handler):
    """OpenAI's embeddings interface; `problems` are sent first, one per request."""

    def do_POST(self):
        body = json.loads(self.body())
        self.server.keys.append(self.headers.get("Authorization"))
        self.server.paths.append(self.path)
        if body["input"] == list(PROBE):  # the first request of every encoder
            self.server.n_probes += 1
            problems = []
        else:
            self.server.requests.append(body)
            problems = self.server.problems
        status, answer, *headers = problems.pop(0) if problems else (200, 0)
        if not answer:
            vectors = letters(body["input"]).astype(float)[:, :: self.server.step].tolist()
            rows = [{"index": i, "embedding": v} for i, v in enumerate(vectors)]
            answer = json.dumps({"data": rows[::-1]})  # in any order
        self.answer(answer.encode(), status, **dict(*headers))

    do_GET = do_POST


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


def test_a_server_is_asked_once_for_each_text(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    encoder = RemoteEncoder(server.url + "#small", cache=tmp_path, batch_size=3)
    np.testing.assert_array_equal(encoder.encode([*TEXTS, TEXTS[0]]), letters([*TEXTS, TEXTS[0]]))
    assert [len(request["input"]) for request in server.requests] == [3, 1]
    assert server.requests[0]["model"] == "small"
    assert server.keys[0] == "Bearer secret"
    again = RemoteEncoder(server.url, "small", cache=tmp_path)
    np.testing.assert_array_equal(again.encode(TEXTS[::-1]), letters(TEXTS[::-1]))
    assert len(server.requests) == 2


def test_what_passes_is_tried_again(server, tmp_path, no_pauses):
    server.problems = [(429, "slow down"), (503, "busy"), (200, "not json")]
    encoder = RemoteEncoder(server.url, cache=tmp_path)
    np.testing.assert_array_equal(encoder.encode(TEXTS), letters(TEXTS))
    assert len(no_pauses) == 3


def test_a_failure_in_the_middle_keeps_what_came(server, tmp_path, no_pauses):
    encoder = RemoteEncoder(server.url, cache=tmp_path, batch_size=2, n_retries=1)
    server.problems = [(200, None), (500, "broken"), (500, "broken")]
    with pytest.raises(ConnectionError, match=r"status 500 \(broken\). 12 vectors .* are kept in"):
        encoder.encode(TEXTS)
    n_before = len(server.requests)
    again = RemoteEncoder(server.url, cache=tmp_path, batch_size=2)
    np.testing.assert_array_equal(again.encode(TEXTS), letters(TEXTS))
    assert [request["input"] for request in server.requests[n_before:]] == [TEXTS[2:]]


def rows_of(*indexes):
    """An answer with one row per text, numbered so."""
    rows = [{"embedding": [1.0, 2.0]} | ({} if i is None else {"index": i}) for i in indexes]
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
        (200, json.dumps({"data": [{"index": i, "embedding": []} for i in range(4)]}), "finite"),
        (200, "[" * 9000, r"more than 4,000 bytes"),
    ],
)
def test_wrong_answers_are_refused_and_not_requested_again(
    server, tmp_path, monkeypatch, no_pauses, status, answer, message
):
    monkeypatch.setattr(remote, "_MAX_ANSWER_BYTES", 1000)
    server.problems = [(status, answer)]
    with pytest.raises((ConnectionError, ValueError), match=message):
        RemoteEncoder(server.url, cache=tmp_path).encode(TEXTS)
    assert len(server.requests) == 1 and not no_pauses


def test_rows_without_any_index_are_in_the_order_of_the_texts(server, tmp_path):
    rows = [{"embedding": [float(i)] * 20} for i in range(4)]
    server.problems = [(200, json.dumps({"data": rows}))]
    vectors = RemoteEncoder(server.url, cache=tmp_path).encode(TEXTS)
    assert vectors[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server, tmp_path, status):
    with running(Embeddings, requests=[], n_probes=0, problems=[]) as other:
        server.problems = [(status, "moved", {"Location": f"{other.address}/v1/embeddings"})]
        with pytest.raises(ConnectionError, match=f"status {status}"):
            RemoteEncoder(server.url, key="secret", cache=tmp_path).encode(TEXTS)
        assert not other.requests


@pytest.mark.parametrize("key", ["a\nb", "a\r\nHost: x", "sécret"])
def test_a_key_that_is_no_line_is_refused_and_not_shown(key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ValueError, match="key must be one line of ASCII characters") as caught:
        RemoteEncoder("http://localhost:1/v1")
    assert key not in str(caught.value)


@pytest.mark.parametrize("host", ["api.openai.com", "eu.api.openai.com", "evil-openai.com", "x.de"])
def test_the_key_of_openai_is_sent_to_no_other_host(host, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    keys = [RemoteEncoder(f"{s}://{host}/v1", cache=tmp_path)._key for s in ("https", "http")]
    assert keys == ["secret" if ".openai.com" in f".{host}" else None, None]
    monkeypatch.setenv("PACSENT_API_KEY", "own")
    assert RemoteEncoder(f"http://{host}/v1", cache=tmp_path)._key == "own"


def test_another_size_than_the_cache_has_is_refused(server, tmp_path):
    first, second = (RemoteEncoder(server.url, cache=tmp_path) for _ in range(2))
    assert not len(second._cache)  # both have seen an empty cache
    first.encode(TEXTS)
    server.step = 2
    with pytest.raises(ValueError, match="must have 20 numbers, as those in"):
        second.encode(["new"])
    np.testing.assert_array_equal(first.encode(TEXTS), letters(TEXTS))


def test_a_flipped_byte_of_a_stored_vector_is_requested_again(server, tmp_path):
    RemoteEncoder(server.url, cache=tmp_path).encode(TEXTS)
    [file] = tmp_path.iterdir()
    stored = [vector.astype("<f4").tobytes() for vector in letters(TEXTS)]
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(stored[0]), 32):
        start = content.index(stored[place % len(stored)])
        changed = bytearray(content)
        changed[start + place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        n_before = len(server.requests)
        np.testing.assert_array_equal(
            RemoteEncoder(server.url, cache=tmp_path).encode(TEXTS), letters(TEXTS)
        )
        assert [len(r["input"]) for r in server.requests[n_before:]] == [1]
    file.write_bytes(b"something else\n" * 100)
    with pytest.raises(ValueError, match="must be a cache of vectors"):
        RemoteEncoder(server.url, cache=tmp_path)


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


@pytest.mark.parametrize("make", [lambda encoder: encoder, as_encoder, Index, TextClassifier])
def test_a_pickle_has_neither_the_key_nor_the_parameters_of_the_url(server, tmp_path, make):
    address = f"{server.url}?api_key=hunter2"
    encoder = RemoteEncoder(address, key="sk-SECRET", cache=tmp_path / "cache")
    joblib.dump(make(encoder), tmp_path / "joblib")

    for content in (pickle.dumps(make(encoder)), (tmp_path / "joblib").read_bytes()):
        assert b"sk-SECRET" not in content and b"hunter2" not in content


def test_an_unpickled_encoder_reads_its_key_from_the_environment(server, tmp_path, monkeypatch):
    content = pickle.dumps(RemoteEncoder(server.url, key="first", cache=tmp_path))

    with pytest.raises(ValueError, match=r"was pickled, without its key\. Set PACSENT_API_KEY"):
        pickle.loads(content).encode(TEXTS)
    monkeypatch.setenv("PACSENT_API_KEY", "second")
    pickle.loads(content).encode(TEXTS)

    assert set(server.keys) == {"Bearer second"}


def test_an_unpickled_encoder_says_which_parameters_of_its_url_are_missing(server, tmp_path):
    encoder = RemoteEncoder(f"{server.url}?tenant=pw&api-version=2", cache=tmp_path)
    with pytest.raises(ValueError, match=r"without its parameters of its URL \(tenant\)"):
        pickle.loads(pickle.dumps(encoder)).encode(TEXTS)


def test_a_copy_keeps_the_key(server, tmp_path):
    encoder = RemoteEncoder(server.url, key="own", cache=tmp_path)
    for copied in (copy.copy(encoder), copy.deepcopy(encoder), clone(TextClassifier(encoder))):
        as_encoder(getattr(copied, "encoder", copied)).encode(TEXTS)
    assert set(server.keys) == {"Bearer own"}


def test_a_server_that_repeats_the_key_does_not_make_it_a_message(server, tmp_path):
    server.problems = [(401, "the key sk-SECRET is wrong")]
    with pytest.raises(ConnectionError, match=r"the key \.\.\. is wrong"):
        RemoteEncoder(server.url, key="sk-SECRET", cache=tmp_path).encode(TEXTS)


def test_a_warm_cache_and_another_model_behind_the_url_are_not_mixed(server, tmp_path):
    RemoteEncoder(server.url, cache=tmp_path).encode(TEXTS)
    server.step = -1  # another model of the same size and name

    again = RemoteEncoder(server.url, cache=tmp_path)
    np.testing.assert_array_equal(again.encode(TEXTS), letters(TEXTS))  # all by the first model
    with pytest.raises(ValueError, match=r"must be the model whose vectors are in .*sqlite"):
        again.encode(["a new text"])


def test_the_server_is_compared_with_the_cache_once(server, tmp_path):
    encoder = RemoteEncoder(server.url, cache=tmp_path, batch_size=1)
    for text in TEXTS:
        encoder.encode([text])
    assert server.n_probes == 1


def test_a_cache_without_the_vectors_that_tell_models_apart_is_refused(server, tmp_path):
    encoder = RemoteEncoder(server.url, cache=tmp_path)
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
def test_strings_and_booleans_of_a_server_are_no_vectors(server, tmp_path, embedding):
    rows = [{"index": i, "embedding": embedding} for i in range(4)]
    server.problems = [(200, json.dumps({"data": rows}))]
    with pytest.raises(ValueError, match="as many vectors of finite numbers"):
        RemoteEncoder(server.url, cache=tmp_path).encode(TEXTS)


def test_the_sentences_of_the_probe_have_no_stored_vector_unless_one_is_given():
    stored = as_encoder((TEXTS, letters(TEXTS)))
    with pytest.raises(ValueError, match="10 of 10 texts have no vector"):
        stored.encode(list(PROBE))
    own = np.arange(20.0).reshape(10, 2)
    np.testing.assert_array_equal(as_encoder((list(PROBE), own)).encode(list(PROBE)), own)


def test_masked_values_of_an_encoder_are_no_numbers():
    vectors = np.ma.masked_array(np.ones((10, 2)), mask=np.eye(10, 2))
    with pytest.raises(ValueError, match="Got nan or inf for 2 of 10 texts"):
        as_encoder(lambda texts: vectors).fit()


@pytest.fixture
def url(server, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return server.url + "#small"


def test_a_folder_from_somebody_else_sends_nothing_to_the_url_it_names(
    server, url, tmp_path, monkeypatch
):
    """Neither texts nor the key: only the caller can name a URL, and it must be the same model."""
    index = Index(url)
    index.add(TEXTS)
    pacsent.save(index, tmp_path / "index")
    pacsent.save(TextClassifier([url, "english"]).fit(WORDS, ["z", "g"] * 15), tmp_path / "words")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-VICTIM")
    server.requests.clear()
    server.keys.clear()
    message = rf"made with the encoder {server.url}#small, which is not saved with it"
    with pytest.raises(ValueError, match=message):
        pacsent.load(tmp_path / "index").search("my secret text")
    with pytest.raises(ValueError, match=message):
        pacsent.load(tmp_path / "words").predict(["my secret text"])
    assert all(step["ok"] for step in pacsent.storage.check(tmp_path / "words"))
    assert not server.requests and not server.keys
    results = pacsent.load(tmp_path / "index", encoder=url).search("the cat slept", k=1)
    assert results[0].text == "the cat slept" and server.keys[0] == "Bearer sk-VICTIM"
    server.step = -1  # another model of the same size, behind the same URL and a warm cache
    with pytest.raises(ValueError, match=r"encoder must be .*small.*Got another"):
        pacsent.load(tmp_path / "index", encoder=url)


def test_a_server_many_files_and_scores_take_any_encoder(url):
    [model] = open_models([ModelSource(url, name="letters")])
    assert model.description()["dimensions"] == 20
    np.testing.assert_array_equal(model.posteriors(TEXTS).means, letters(TEXTS))
    answer = Embed(url).load()([*TEXTS, "!"])
    np.testing.assert_array_equal(answer.columns["mean"][:4], letters(TEXTS))
    assert answer.n_empty == 1
    with pytest.raises(TypeError, match=r"Got function instead\. Save it: pacsent\.save"):
        embed_shards(letters, ["a.txt"], "vectors")
    labels = np.array([1, 0] * 15), np.array([1, 0])
    dataset = Dataset("toy", WORDS, labels[0], ["zebras", "ghosts"], labels[1], ("g", "z"), "")
    for method in (letters, url):
        assert pacsent.evaluate(method, dataset, seeds=(0,), Cs=(1.0,)).accuracy == 1.0


@pytest.mark.slow
def test_every_command_takes_the_encoder_of_a_model_or_an_encoder_as_its_model(url, tmp_path):
    encoder = ExternalEncoder(WithEncode(), name="letters")
    labels = ["zebras", "ghosts"] * 15
    classifier = TextClassifier(encoder).fit(WORDS[8:], labels[8:])
    pacsent.save(classifier, tmp_path / "classifier")
    pacsent.save(encoder, tmp_path / "letters")
    index = Index(encoder)
    index.add(WORDS)
    pacsent.save(index, tmp_path / "animals")
    rows = [f"{label}\t{text}" for label, text in zip(labels, WORDS)]
    (tmp_path / "labelled.txt").write_text("\n".join(rows[:8]))
    (tmp_path / "all.txt").write_text("\n".join(rows))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))

    def run(*words):
        done = invoke(*(word.replace("@", f"{tmp_path}/") for word in words))
        return done.exit_code, done.output

    for line in (
        f"embed {url} @texts.txt -o @v.npy",
        f"index {url} @texts.txt -o @index",
        f"map {url} @texts.txt -o @map.html",
    ):
        code, output = run(*line.split())
        assert code == 0, output
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), letters(TEXTS))
    assert "a cup of tea" in (tmp_path / "map.html").read_text()
    for line in (
        "predict @classifier @texts.txt",
        "predict @classifier @texts.txt -o @answers/",
        "certify @classifier @labelled.txt",
        "explain @classifier zebra",
        "report @classifier @labelled.txt -o @page.html",
        "search @animals zebra -k 1",
        "embed @letters @texts.txt",
        "embed @letters @texts.txt -o @vectors/",
    ):
        code, output = run(*line.split())
        assert code == 1 and "made with the encoder letters" in output, output
        assert "load(path, encoder=...), or --encoder PATH|URL" in output
        code, output = run(*line.split(), "--encoder", url)
        assert code == 0, output
    for line, expected, message in (
        (f"search @index the_cat_slept -k 1 --encoder {url}", 0, "the cat slept"),
        (f"embed {url} @texts.txt --pairs @texts.txt --quiet", 0, "1.0000\n" * 4),
        (f"embed {url} @texts.txt --method PB-L2", 2, "--method is for word vectors"),
        ("embed @letters @texts.txt --encoder english", 1, "must give vectors of 20 numbers"),
        (f"paper score {url} @all.txt --seeds 1 --quiet", 0, "on all: 1.0000"),
    ):
        code, output = run(*line.split())
        assert code == expected and message in output, output


def test_a_folder_that_only_sentence_transformers_can_open_is_an_encoder(tmp_path, monkeypatch):
    library = SimpleNamespace(SentenceTransformer=lambda path: WithEncode())
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    folder = tmp_path / "st"
    folder.mkdir()
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer"}]')
    index = Index(str(folder))
    index.add(TEXTS)
    pacsent.save(index, tmp_path / "index")
    search = ["search", tmp_path / "index", "the cat slept", "-k", "1"]
    assert "made with the encoder st" in invoke(*search).output
    assert "the cat slept" in invoke(*search, "--encoder", folder, status=0).output


def test_the_english_model_encodes_and_compares(tmp_path):
    english = pacsent.load("english")
    assert not hasattr(english._sentences, "posterior")  # opened when it is first used
    cosines = english.similarity(["a sleeping kitten"], TEXTS)[0]
    assert cosines.argmax() == 1 and english.encode(TEXTS).shape == (4, 256)
    assert english.encode(["supercalifragilisticexpialidocious"]).any()  # by its pieces
    opened = pacsent.load(pacsent.save(english, tmp_path / "copy"))
    for other in (opened, pickle.loads(pickle.dumps(english)), as_encoder("english")):
        np.testing.assert_array_equal(other.encode(TEXTS), english.encode(TEXTS))
    pacsent.save(make_encoder("Average", english).fit([]), tmp_path / "method")
    assert pacsent.load(tmp_path / "method").word_vectors.sentences is None
    words = english.replace(sentences=None)
    with pytest.raises(ValueError, match=r"make_encoder\('SIF-sum', words\)"):
        words.encode(TEXTS)
    assert as_encoder(words).method_name == "SIF-sum"


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
    with pytest.warns(
        EmptySentenceWarning, match=r"2 of 5 texts have no vector \(row 1, 4, counted"
    ) as caught:
        Index("english").add(["a good film", "[]", "red wine", "the cat slept", ""])
    about_vectors = [each for each in caught if issubclass(each.category, EmptySentenceWarning)]
    assert len(about_vectors) == 1
