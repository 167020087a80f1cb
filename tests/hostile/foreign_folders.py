"""Model folders of others: nothing is sent to a server that a folder names.

Only a user who names the server too, by `load(encoder=URL)`, sends it texts and the key.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import pacsent
from hostile import crafted
from hostile.embedding_servers import KEY, EmbeddingServer
from hostile.material import TEXTS, Tree, tree_of, write_tree
from hostile.running import Case, Refused, command
from pacsent.sentences.external_encoders import as_encoder

# ---- models whose encoder is on a server --------------------------------------------------------


def _fit(classifier):
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 3)]
    labels = ["up" if "joy" in text else "down" for text in texts]
    return classifier.fit(texts, labels)


def _two_encoders(encoder):
    return as_encoder([encoder, "english"]).fit([])


def _index(encoder):
    index = pacsent.Index(encoder)
    index.add(TEXTS)
    return index


def _classifier(encoder):
    return _fit(pacsent.TextClassifier(encoder))


def _certified_classifier(encoder):
    classifier = pacsent.TextClassifier(encoder)
    certified = pacsent.CertifiedClassifier(classifier, calibration_size=0.4, random_state=0)
    return _fit(certified)


# kind -> how its model is made from an encoder
MODELS: dict[str, Callable] = {
    "an encoder": lambda encoder: encoder,
    "two encoders": _two_encoders,
    "an index": _index,
    "a classifier": _classifier,
    "a certified classifier": _certified_classifier,
}
# kind -> commands that use its folder
COMMANDS = {
    "an encoder": ("embed model t.txt -o v.npy", "index model t.txt -o new", "serve model"),
    "two encoders": ("embed model t.txt -o v.npy", "map model t.txt -o map.html"),
    "an index": ("search model film", "serve model"),
    "a classifier": ("predict model t.txt", "explain model film", "serve model"),
    "a certified classifier": ("predict model t.txt", "monitor model t.txt", "serve model"),
}

# ---- how a folder is used -----------------------------------------------------------------------


def _use(model) -> None:
    if hasattr(model, "search"):
        model.search("good film")
    elif hasattr(model, "predict"):
        model.predict(TEXTS)
    else:
        model.encode(TEXTS)


def _load(server: EmbeddingServer) -> None:
    _use(pacsent.load("model"))


def _load_with_another(server: EmbeddingServer) -> None:
    def constant(texts):
        rows = [0] * len(texts)
        return np.eye(3)[rows]

    _use(pacsent.load("model", encoder=constant))


def _load_with_url(server: EmbeddingServer) -> None:
    _use(pacsent.load("model", encoder=server.url))


def _run_command(line: str, server: EmbeddingServer) -> None:
    port = ["--port", "0"] if line.startswith("serve") else []
    command(*line.split(), *port)


def _paths_of_texts(value, path=()) -> Iterator[tuple]:
    """The paths of all texts in a JSON value."""
    if isinstance(value, str):
        yield path
        return

    children = []
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield from _paths_of_texts(child, (*path, key))


def _replace(value, path: tuple, text: str):
    """A copy of a JSON value with another text at a path."""
    copy = json.loads(json.dumps(value))
    *parents, last = path
    node = copy
    for key in parents:
        node = node[key]
    node[last] = text
    return copy


def _folders_with_text(text: str) -> Iterator[Tree]:
    """The folder "model" as "m", with another text in place of each one in its descriptions."""
    files = tree_of(Path("model"))
    tree = {f"m/{name}": content for name, content in files.items()}
    for folder in crafted.folders_of(tree):
        config = json.loads(tree[f"{folder}/{crafted.CONFIG}"])
        for path in _paths_of_texts(config):
            changed = _replace(config, path, text)
            yield crafted.signed(tree, folder, config=changed)


def _url_in_every_text(server: EmbeddingServer) -> None:
    for tree in _folders_with_text(server.url):
        write_tree(tree, Path("other"))
        with contextlib.suppress(ValueError, OSError, ImportError):
            _use(pacsent.load("other/m"))
    raise Refused("never contacted")


# ---- cases --------------------------------------------------------------------------------------


def _foreign(kind: str, use: Callable[[EmbeddingServer], None], is_sent: bool) -> None:
    """Save a model whose encoder is on a server, use its folder, and count the requests."""
    os.environ["OPENAI_API_KEY"] = KEY
    os.environ["XDG_CACHE_HOME"] = "cache"
    server = EmbeddingServer()
    model = MODELS[kind](as_encoder(server.url))
    pacsent.save(model, "model")
    Path("t.txt").write_text("\n".join(TEXTS) + "\n")
    server.requests.clear()

    try:
        use(server)
    finally:
        if bool(server.requests) != is_sent:
            raise AssertionError(f"the server received {len(server.requests)} requests")


def _uses(kind: str) -> dict[str, Callable[[EmbeddingServer], None]]:
    """How a folder of this kind is used without the consent of the user."""
    uses = {
        "load": _load,
        "load(encoder=another)": _load_with_another,
        "its URL in every text": _url_in_every_text,
    }
    for line in COMMANDS[kind]:
        uses[f"pacsent {line}"] = partial(_run_command, line)
    return uses


def cases() -> Iterator[Case]:
    for kind in MODELS:
        allowed = partial(_foreign, kind, _load_with_url, is_sent=True)
        yield Case(f"a folder of {kind}: load(encoder=URL)", allowed, "ok")

        for name, use in _uses(kind).items():
            run = partial(_foreign, kind, use, is_sent=False)
            yield Case(f"a folder of {kind}: {name}", run, "refused")
