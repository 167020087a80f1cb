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
    words, fingerprint = encoder.word_vectors, encoder.word_vectors.fingerprint
    digest = words.corpus_digest
    same = digest is not None and digest == words.vocabulary.digest(encoded)
    seen = np.full(encoded.n_sentences, same)
    status = "checked"
    if fingerprint is None:
        status, note = "unknown", "The word vectors have no fingerprint of the training text."
    else:
        seen |= fingerprint.overlap(Fingerprint.hashes(words.vocabulary, encoded))
        typical = int(np.median(np.diff(encoded.offsets))) if encoded.n_sentences else 0
        note = (
            f"The word vectors have {fingerprint.documents.size + fingerprint.runs.size:,} "
            f"fingerprints; a document of {typical:,} words from the training text is recognised "
            f"with probability {fingerprint.chance_to_notice(typical):.2g}."
        )
    if isinstance(encoder, MappedEncoder):
        status = "unknown"
        note += f" The encoder {name_of(encoder.encoder)} has no fingerprint of the training text."
    return Provenance(status, note, seen)


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


def refuse_overlap(provenance: Provenance) -> None:
    """Refuse documents of the training text."""
    n, seen = int(provenance.seen.sum()), provenance.seen
    if not n:
        return
    first = ", ".join(map(str, np.flatnonzero(seen)[:3]))
    raise ValueError(
        f"The word vectors or the encoder were trained on {n:,} of the {seen.size:,} "
        f"documents to certify, or on passages of them (document {first}"
        f"{', ...' if n > 3 else ''}), so that no bound holds. Certify other text, or leave these "
        "documents out: overlap='drop'."
    )
