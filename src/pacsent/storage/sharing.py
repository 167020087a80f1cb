"""Models on the Hugging Face hub: put there with a card that describes them."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pacsent
from pacsent.storage import hub
from pacsent.storage.model_folder import from_json, read_config
from pacsent.storage.saving import save


def push_to_hub(
    obj: Any,
    repo: str,
    *,
    message: str | None = None,
    private: bool | None = None,
    card: str | None = None,
) -> str:
    """Save a model and put it on the Hugging Face hub (extra `[hub]`); the address of the commit.

    Parameters
    ----------
    obj : WordVectors, a fitted estimator of pacsent, or an Index
        An index holds the texts themselves: they are uploaded too.
    repo : str
        `owner/name`. It is made if it is not there; `load("hf://owner/name")` opens it.
    message : str, optional
        Of the commit.
    private : bool, optional
        For a repository that is made now.
    card : str, optional
        README.md; when left out, one that says what the model is and how it was made.

    Examples
    --------
    >>> import tempfile
    >>> from pacsent import load, save
    >>> folder = save(load("english"), tempfile.mkdtemp() + "/english")
    >>> "me/english" in model_card(folder, "me/english")  # the card can be read beforehand
    True
    >>> push_to_hub(load("english"), "me/english")  # doctest: +SKIP
    """
    with tempfile.TemporaryDirectory() as place:
        folder = save(obj, Path(place) / "model")
        text = model_card(folder, repo) if card is None else card
        (folder / "README.md").write_text(text, encoding="utf-8")
        summary = message or f"{type(obj).__name__}, by pacsent {pacsent.__version__}"
        return hub.upload(folder, repo, message=summary, private=private)


def model_card(folder: str | os.PathLike[str], repo: str) -> str:
    """README.md of a saved model, from what its folder says."""
    configs = [read_config(Path(folder))]
    place = Path(folder)
    while configs[-1].get("parts") and configs[-1]["kind"] != "WordVectors":
        place /= next(iter(configs[-1]["parts"].values()))["path"]
        configs.append(read_config(place))
    config, words = configs[0], configs[-1]
    lines = [
        "---",
        "library_name: pacsent",
        "tags:",
        "- pacsent",
        "- word-vectors",
        "- sentence-similarity",
        "---",
        "",
        f"# {repo.partition('/')[2]}",
        "",
        f"A {config.get('class', config['kind'])} of pacsent, version {config['pacsent_version']}.",
        "",
        "```python",
        "import pacsent",
        "",
        f'model = pacsent.load("{hub.SCHEME}{repo}")',
        "```",
        "",
    ]
    for part in configs:
        if part.get("parameters"):
            settings = ", ".join(f"`{k}={from_json(v)!r}`" for k, v in part["parameters"].items())
            lines += [f"- {part.get('class', part['kind'])}: {settings}"]
    if "n_words" in words:
        lines += [f"- Word vectors: {words['n_words']:,} words, {words['n_dims']} dimensions"]
    for key, value in (words.get("training") or {}).items():
        shown = "; ".join(map(str, value)) if isinstance(value, list) else value
        lines += [f"- {key.replace('_', ' ')}: {shown}"]
    lines += ["", "`pacsent verify` compares every file with the checksums in config.json.", ""]
    return "\n".join(lines)
