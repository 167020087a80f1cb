"""Whether an encoder was trained on the text to certify, by fingerprints of its training text.

Word vectors trained by pacsent, and encoders fitted by it, have a `Fingerprint` of their documents.
Documents in another order, and passages cut out of them, are recognised.
"""

import hashlib
import itertools
from typing import Any, NamedTuple

import numpy as np

from pacsent.encoders.external_encoders import name_of
from pacsent.guarantees.mapped_encoder import MappedEncoder
from pacsent.text.encoded import Encoded
from pacsent.words.fingerprint import Fingerprint


class Provenance(NamedTuple):
    """What is known about the training text, and which documents it contains."""

    status: str  # "checked" or "unknown"
    note: str
    seen: np.ndarray  # (n_documents,) bool


def provenance_of(encoder: Any, encoded: Encoded) -> Provenance:
    """Compare the documents with the training text of the word vectors."""
    words = encoder.word_vectors
    texts = None
    digest = words.corpus_digest
    same = digest is not None and digest == words.vocabulary.digest(encoded)
    seen = np.full(encoded.n_sentences, same)
    status, notes = "checked", []
    sources = [("The word vectors", words.fingerprint)]
    if isinstance(encoder, MappedEncoder):
        sources.append((f"The encoder {name_of(encoder.encoder)}", None))
    for name, fingerprint in sources:
        verb = "have" if name.endswith("s") else "has"
        if fingerprint is None:
            status = "unknown"
            notes.append(f"{name} {verb} no fingerprint of the training text.")
            continue
        if texts is None:
            texts = Fingerprint.hashes(words.vocabulary, encoded)
        seen |= fingerprint.overlap(texts)
        typical = int(np.median(np.diff(encoded.offsets))) if encoded.n_sentences else 0
        chance = fingerprint.chance_to_notice(typical)
        notes.append(
            f"{name} {verb} {fingerprint.documents.size + fingerprint.runs.size:,} fingerprints; a "
            f"document of {typical:,} words from the training text is recognised with probability "
            f"{chance:.2g}."
        )
    return Provenance(status, " ".join(notes), seen)


def first_copies(encoded: Encoded) -> np.ndarray:
    """Rows of the documents without those that repeat the known words of an earlier one.

    Copies are not independent examples, so each is counted once. Documents of fewer than two known
    words are kept: they are left out, and counted, elsewhere.
    """
    ids = np.ascontiguousarray(encoded.ids, dtype="<i4").tobytes()
    edges = (4 * encoded.offsets).tolist()
    seen: set[bytes] = set()
    rows = []
    for row, (start, stop) in enumerate(itertools.pairwise(edges)):
        if stop - start >= 8:  # two words
            digest = hashlib.blake2b(ids[start:stop], digest_size=16).digest()
            if digest in seen:
                continue
            seen.add(digest)
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def refuse_overlap(found: Provenance) -> None:
    """Refuse documents of the training text."""
    n = int(found.seen.sum())
    if not n:
        return
    first = ", ".join(map(str, np.flatnonzero(found.seen)[:3]))
    raise ValueError(
        f"The word vectors or the encoder were trained on {n:,} of the {found.seen.size:,} "
        f"documents to certify, or on passages of them (document {first}"
        f"{', ...' if n > 3 else ''}), so that no bound holds. Certify other text, or leave these "
        "documents out: overlap='drop'."
    )
