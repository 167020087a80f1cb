"""Checksums of files and of JSON.

They find what disks, copies and edits do to a saved file. They are not signatures: whoever writes a
folder can write its checksums.
"""

import hashlib
import json
import os


def file_record(path: str | os.PathLike) -> dict:
    """Size and SHA-256 of a file, as config.json keeps them."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def checksum_of_json(value: object) -> str:
    """Checksum of the content, whatever the order of the keys and the white space of the file.

    >>> checksum_of_json({'a': 1, 'b': 2}) == checksum_of_json({'b': 2, 'a': 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
