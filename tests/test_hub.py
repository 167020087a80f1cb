"""The Hugging Face hub: models put there and opened from there, against a server that plays it."""

import base64
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
from pacsent import Index, Vocabulary, WordVectors, load, make_encoder, push_to_hub, save
from pacsent.encoders import ExternalEncoder
from pacsent.storage import PACKAGED
from pacsent.storage.sharing import model_card

needs_library = pytest.mark.skipif(
    find_spec("huggingface_hub") is None, reason="the extra [hub] is not installed"
)
SHA = "a" * 40


class Hub(Handler):
    """As much of the hub's HTTP as an upload and a download need, for one token."""

    def do_PUT(self):
        data = self.body()
        self.server.blobs[hashlib.sha256(data).hexdigest()] = data
        self.answer(b"")

    def do_POST(self):
        data, path = self.body(), self.path.partition("?")[0]
        self.server.posts.append(path)
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            return self.answer({"url": f"{self.server.address}/ada/words"})
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if path.startswith("/api/models/ada/words/preupload/"):
            files = json.loads(data)["files"]
            for file in files:
                large = file["path"].endswith(".safetensors")
                file |= {"shouldIgnore": False, "uploadMode": "lfs" if large else "regular"}
            return self.answer({"files": files})
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(data)["objects"]
            for blob in objects:
                place = f"{self.server.address}/blob/{blob['oid']}"
                blob["actions"] = {"upload": {"href": place}}
            return self.answer({"transfer": "basic", "objects": objects})
        if path.startswith("/api/models/ada/words/commit/"):
            for line in data.decode().splitlines():
                entry = json.loads(line)
                value = entry["value"]
                if entry["key"] == "file":
                    self.server.files[value["path"]] = base64.b64decode(value["content"])
                elif entry["key"] == "lfsFile":
                    self.server.files[value["path"]] = self.server.blobs[value["oid"]]
                elif entry["key"] == "header":
                    self.server.messages.append(value["summary"])
            url = f"{self.server.address}/ada/words/commit/{SHA}"
            return self.answer({"commitUrl": url, "commitOid": SHA, "success": True})
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
    with running(Hub, files={}, blobs={}, messages=[], fetched=[], posts=[]) as made:
        yield made


@pytest.fixture
def elsewhere(server, tmp_path):
    """Runs code in a process that takes the server for the hub."""

    def run(code, token="hf_right", arguments=(), **more):
        address, home = server.address, str(tmp_path / "hf")
        hub = {"HF_ENDPOINT": address, "HF_HOME": home, "HF_TOKEN": token, **more}
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


@needs_library
@pytest.mark.slow
def test_a_fitted_method_goes_there_and_comes_back(server, elsewhere, words, tmp_path):
    vectorizer = make_encoder("SIF", words).fit([])
    save(vectorizer, tmp_path / "sif")
    push = "pacsent.push_to_hub(pacsent.load('sif'), 'ada/words', message='first')"
    done = elsewhere(f"import pacsent; print({push})")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{server.address}/ada/words/commit/{SHA}"
    assert server.messages == ["first"]
    names = {"config.json", "model.safetensors", "words/config.json", "README.md"}
    assert names <= set(server.files)
    assert b'pacsent.load("hf://ada/words")' in server.files["README.md"]
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
def test_word_vectors_by_the_command_and_from_the_cache(server, elsewhere, words):
    run = ("-m", "pacsent")
    done = elsewhere("", arguments=(*run, "model", "push", "words", "ada/words"))
    assert done.returncode == 0, done.stderr
    assert server.messages == ["WordVectors, by pacsent 0.1.0"]
    done = elsewhere("", arguments=(*run, "vectors", "neighbours", "hf://ada/words", "film"))
    assert done.returncode == 0 and "good" in done.stdout, done.stderr
    code = "import pacsent; print(pacsent.make_encoder('Average', 'hf://ada/words').fit([]).n_sentences_)"
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
    folder = save(index, tmp_path / "index")
    for file in filter(Path.is_file, folder.rglob("*")):
        server.files[file.relative_to(folder).as_posix()] = file.read_bytes()
    code = "import pacsent; pacsent.load('hf://ada/words').search('my secret')"
    done = elsewhere(code, OPENAI_API_KEY="sk-VICTIM")
    assert f"made with the encoder {server.address}/v1#x" in done.stderr.splitlines()[-1]
    assert not server.posts


@needs_library
@pytest.mark.parametrize(
    "code, token, message",
    [
        ("load('hf://ada/nothing')", "hf_right", "ada/nothing is not on the hub, or it is private"),
        ("load('hf://ada/words@elsewhere')", "hf_right", "there is no such revision"),
        ("push_to_hub(load('words'), 'ada')", "hf_right", "repo must be owner/name. Got 'ada'"),
        ("push_to_hub(load('words'), 'ada/words')", "hf_wrong", "words could not be written"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(server, elsewhere, words, code, token, message):
    server.files["config.json"] = b"{}"
    done = elsewhere(f"from pacsent import load, push_to_hub; {code}", token=token)
    assert done.returncode == 1 and message in done.stderr.splitlines()[-1]


def test_without_the_library_the_extra_is_named(words, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[hub\]'"):
        load("hf://ada/words")
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[hub\]'"):
        push_to_hub(words, "ada/words")
    for address in ("hf://", "hf://a", "hf://a/b/c", "hf://a/b@", "hf://../x y"):
        with pytest.raises(ValueError, match="The address must be hf://owner/name"):
            load(address)


def test_the_card_says_what_the_model_is_and_how_it_is_opened(words, tmp_path):
    save(make_encoder("SIF", words, a=0.002).fit([]), tmp_path / "sif")
    card = model_card(tmp_path / "sif", "ada/words")
    assert card.startswith("---\nlibrary_name: pacsent\n")
    assert "# words" in card and "A SIFVectorizer of pacsent" in card
    assert "`a=0.002`" in card and "3 words, 4 dimensions" in card
    english = model_card(PACKAGED / "english", "ada/english")
    assert "Wikipedia" in english and "65,536 words" in english
