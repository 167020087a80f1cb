"""The Hugging Face hub: models opened from there, against a server that plays it."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from http_servers import Handler, running
from pacsent import Index, Vocabulary, WordVectors, load, make_encoder, save
from pacsent.sentences import ExternalEncoder

needs_library = pytest.mark.skipif(
    find_spec("huggingface_hub") is None, reason="the extra [hub] is not installed"
)
SHA = "a" * 40


class Hub(Handler):
    """As much of the hub's HTTP as a download needs."""

    def do_POST(self):
        self.server.posts.append(self.path)
        return self.answer({"error": "not here"}, 404)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/ada/words") and self.server.files:
            parts = path.removeprefix("/api/models/ada/words").strip("/").split("/")
            if parts[0] == "revision" and parts[1] not in ("main", SHA):
                return self.answer({"error": "no revision"}, 404, X_Error_Code="RevisionNotFound")
            if parts[0] == "tree":
                files = self.server.files.items()
                return self.answer(
                    [{"type": "file", "path": n, "size": len(d), "oid": SHA} for n, d in files]
                )
            siblings = [{"rfilename": name} for name in self.server.files]
            return self.answer({"id": "ada/words", "sha": SHA, "siblings": siblings})
        if path.startswith("/ada/words/resolve/"):
            name = path.removeprefix("/ada/words/resolve/").partition("/")[2]
            if name in self.server.files:
                data = self.server.files[name]
                self.server.fetched.append(name)
                digest = hashlib.sha256(data).hexdigest()
                return self.answer(data, ETag=f'"{digest}"', X_Repo_Commit=SHA)
        return self.answer({"error": "not here"}, 404, X_Error_Code="RepoNotFound")


@pytest.fixture
def server():
    with running(Hub, files={}, fetched=[], posts=[]) as made:
        yield made


@pytest.fixture
def elsewhere(server, tmp_path):
    """Runs code in a process that takes the server for the hub."""

    def run(code, arguments=(), **more):
        hub = {"HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path / "hf"), **more}
        hub |= {f"HF_HUB_DISABLE_{n}": "1" for n in ("XET", "PROGRESS_BARS", "TELEMETRY")}
        return subprocess.run(
            [sys.executable, *(arguments or ("-c", textwrap.dedent(code)))],
            capture_output=True, text=True, timeout=120, cwd=tmp_path, env={**os.environ, **hub},
        )  # fmt: skip

    return run


@pytest.fixture
def words(tmp_path):
    tables = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    made = WordVectors(Vocabulary(["the", "good", "film"], [30, 20, 10]), *tables)
    save(made, tmp_path / "words")
    return made


def upload(server, folder):
    """Let the server have the files of a saved model."""
    for file in filter(Path.is_file, folder.rglob("*")):
        server.files[file.relative_to(folder).as_posix()] = file.read_bytes()


@needs_library
@pytest.mark.slow
def test_a_fitted_method_is_opened_and_only_data_files_are_fetched(
    server, elsewhere, words, tmp_path
):
    vectorizer = make_encoder("SIF", words).fit([])
    upload(server, save(vectorizer, tmp_path / "sif"))
    server.files["evil.py"] = server.files["model.pkl"] = b"never fetched"
    done = elsewhere(
        """
        import pacsent
        from pacsent.storage import check
        print(pacsent.load("hf://ada/words").transform(["the good film"]).tolist())
        assert all(step["ok"] for step in check("hf://ada/words@main"))
        """
    )
    assert done.returncode == 0, done.stderr
    vectors = np.array(json.loads(done.stdout))
    np.testing.assert_allclose(vectors, vectorizer.transform(["the good film"]), rtol=1e-6)
    assert not {"evil.py", "model.pkl"} & set(server.fetched)


@needs_library
@pytest.mark.slow
def test_word_vectors_by_the_command_and_from_the_cache(server, elsewhere, words, tmp_path):
    upload(server, tmp_path / "words")
    arguments = ("-m", "pacsent", "vectors", "neighbours", "hf://ada/words", "film")
    done = elsewhere("", arguments=arguments)
    assert done.returncode == 0 and "good" in done.stdout, done.stderr
    encoder = "pacsent.make_encoder('Average', 'hf://ada/words')"
    code = f"import pacsent; print({encoder}.fit([]).n_sentences_)"
    assert elsewhere(code).stdout == "0\n"
    n_fetched = len(server.fetched)
    server.files.clear()  # as if the hub were away: what was fetched before is there
    done = elsewhere(code, HF_HUB_OFFLINE="1")
    assert done.stdout == "0\n", done.stderr
    assert len(server.fetched) == n_fetched


@needs_library
def test_the_url_that_a_model_of_the_hub_names_is_not_contacted(server, elsewhere, tmp_path):
    encoder = ExternalEncoder(lambda texts: np.ones((len(texts), 2)), name=f"{server.address}/v1#x")
    index = Index(encoder)
    index.add(["a text"])
    upload(server, save(index, tmp_path / "index"))
    code = "import pacsent; pacsent.load('hf://ada/words').search('my secret')"
    done = elsewhere(code, OPENAI_API_KEY="sk-VICTIM")
    assert f"made with the encoder {server.address}/v1#x" in done.stderr.splitlines()[-1]
    assert not server.posts


@needs_library
@pytest.mark.parametrize(
    "address, message",
    [
        ("hf://ada/nothing", "ada/nothing is not on the hub, or it is private"),
        ("hf://ada/words@elsewhere", "there is no such revision"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(server, elsewhere, address, message):
    server.files["config.json"] = b"{}"
    done = elsewhere(f"from pacsent import load; load({address!r})")
    assert done.returncode == 1 and message in done.stderr.splitlines()[-1]


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[hub\]'"):
        load("hf://ada/words")
    for address in ("hf://", "hf://a", "hf://a/b/c", "hf://a/b@", "hf://../x y"):
        with pytest.raises(ValueError, match="The address must be hf://owner/name"):
            load(address)
