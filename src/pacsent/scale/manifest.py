"""The manifest of a target: the source of every output, so that a run can be resumed."""

import json
import time
from dataclasses import asdict
from typing import Any

import pacsent
from pacsent.scale import stores
from pacsent.scale.shard_writer import Record

_SAVE_INTERVAL_SECONDS = 2.0


class Manifest:
    """The contents of a target: of each file its source, checksum, counts, coverage and bad rows.

    Parameters
    ----------
    target : str or path
        The folder of the outputs.
    settings : dict
        The model and everything else that the outputs depend on.

    Attributes
    ----------
    path : str or None
        manifest.json in the target; None if the target is a file.
    files : dict
        The finished files by their name without its suffix.
    failed : dict
        Source -> error.
    ignored : list of str
        Sources whose format is not supported.
    outdated : list of str
        Outputs of earlier runs whose input is no longer among the sources, or that were made in
        another format: nothing deletes them, and whoever reads the folder reads them too.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pacsent.scale import embed_shards
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("a glass of wine\\nsome beer\\n")
    >>> manifest = embed_shards("english", [folder / "a.txt"], folder / "vectors", format="jsonl")
    >>> list(manifest.files), manifest.totals()["rows"]
    (['a'], 2)
    """

    def __init__(self, target: Any, settings: dict) -> None:
        self.target = str(target).rstrip("/")
        self.settings = settings
        self.path: str | None = f"{self.target}/manifest.json"
        self.files: dict[str, Record] = {}
        self.failed: dict[str, str] = {}
        self.ignored: list[str] = []
        self.outdated: list[str] = []
        self._saved_at = 0.0

    @classmethod
    def of_folder(
        cls, target: Any, settings: dict, shards: list[stores.Shard], *, overwrite: bool
    ) -> "Manifest":
        """Read the manifest that an earlier run left, or start a new one.

        Parameters
        ----------
        target : str or path
            The folder of the outputs.
        settings : dict
            Those of this run; an earlier run must have had the same.
        shards : list of Shard
            The files of this run.
        overwrite : bool
            Replace outputs of other settings.

        Returns
        -------
        manifest : Manifest
        """
        manifest = cls(target, json.loads(json.dumps(settings)))
        try:
            with stores.open_file(manifest.path) as file:
                content = json.loads(file.read())
            files = {name: Record(**record) for name, record in content["files"].items()}
            settings_before = dict(content["settings"])
            known_outdated = list(content.get("outdated", ()))
        except (FileNotFoundError, NotADirectoryError):
            if not overwrite:
                stores.check_target(target)
            return manifest
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{manifest.path} must be the manifest of an earlier run. Got something else "
                "instead. Choose another target."
            ) from None

        if settings_before == manifest.settings:
            names = {shard.name for shard in shards}
            manifest.files = {name: record for name, record in files.items() if name in names}
        elif not overwrite:
            changed = []
            for name, value in manifest.settings.items():
                if settings_before.get(name) != value:
                    changed.append(name)
            raise ValueError(
                f"{target} was made with other settings ({', '.join(changed)}). Choose another "
                "target, or pass overwrite=True to replace it."
            )
        manifest._find_outdated(known_outdated, files, settings_before.get("format"), shards)
        return manifest

    def _find_outdated(
        self,
        known: list[str],
        files: dict[str, Record],
        format: str | None,
        shards: list[stores.Shard],
    ) -> None:
        """Set `outdated`, of what an earlier run left."""
        current = {self.output_of(shard) for shard in shards}
        earlier = [f"{name}.{format}" for name in files]
        for name in dict.fromkeys([*known, *earlier]):
            location = f"{self.target}/{name}"
            if location not in current and stores.file_size(location) is not None:
                self.outdated.append(name)

    def output_of(self, shard: stores.Shard) -> str:
        """Return the location of a shard's output.

        Parameters
        ----------
        shard : Shard
            An input file.

        Returns
        -------
        str
            Path or URL.
        """
        return f"{self.target}/{shard.name}.{self.settings['format']}"

    def is_finished(self, shard: stores.Shard) -> bool:
        """Return True if the output is there, complete, and of the file as it is now.

        Parameters
        ----------
        shard : Shard
            An input file. If its output is incomplete or out of date, it is forgotten.

        Returns
        -------
        bool
        """
        record = self.files.get(shard.name)
        if record is None:
            return False

        recorded_source = (record.source, record.size, record.version)
        if recorded_source == (shard.shown, shard.size, shard.version):
            n_bytes = stores.file_size(self.output_of(shard))
            if n_bytes == record.bytes:
                return True
        del self.files[shard.name]
        return False

    def add(self, shard: stores.Shard, result: Record | BaseException) -> None:
        """Add a file that is finished, or failed.

        Parameters
        ----------
        shard : Shard
        result : Record or exception
            The entry of a finished file, or the reason why it failed.
        """
        if isinstance(result, Record):
            self.files[shard.name] = result
        else:
            reason = str(result) or type(result).__name__
            self.failed[shard.shown] = reason.replace(shard.source, shard.shown)
        if time.monotonic() - self._saved_at > _SAVE_INTERVAL_SECONDS:
            self.save()

    def totals(self) -> dict[str, Any]:
        """Return sums over all files.

        Returns
        -------
        totals : dict
            Numbers of files, rows, words and bytes, and "coverage", the fraction of words in the
            vocabulary; None without words.
        """
        totals: dict[str, Any] = {"files": len(self.files), "failed": len(self.failed)}
        for name in ("rows", "empty", "bad_rows", "known", "unknown", "bytes"):
            totals[name] = sum(getattr(record, name) for record in self.files.values())

        n_words = totals["known"] + totals["unknown"]
        totals["coverage"] = None
        if n_words:
            totals["coverage"] = round(totals["known"] / n_words, 6)
        return totals

    def save(self) -> None:
        """Write the manifest to a temporary file and move it to its place."""
        if self.path is None:
            return
        content = {
            "pacsent": pacsent.__version__,
            "settings": self.settings,
            "totals": self.totals(),
            "failed": self.failed,
            "ignored": self.ignored,
            "outdated": self.outdated,
            "files": {name: asdict(record) for name, record in sorted(self.files.items())},
        }
        with stores.write_complete(self.path) as file:
            file.write(json.dumps(content, indent=1).encode())
        self._saved_at = time.monotonic()
