"""Whether a vectorizer has seen the text that is to be certified: asked of fingerprints.

Word vectors trained here, and vectorizers fitted here, carry a fingerprint of their documents
(`words.fingerprint`). Documents in another order, or passages cut out of them, are noticed.
"""

import hashlib
import itertools
from typing import Any, NamedTuple

import numpy as np

from pacsent.text.encoded import Encoded
from pacsent.words.fingerprint import Fingerprint


class Provenance(NamedTuple):
    """What is known about the vectors' past, and which documents they have seen."""

    status: str  # "checked" or "unknown"
    note: str
    seen: np.ndarray  # (n_documents,) bool


def provenance_of(vectorizer: Any, encoded: Encoded, *, as_fitted: bool) -> Provenance:
    """Compare the documents with what the word vectors, and the vectorizer as fitted, have seen."""
    words = vectorizer.word_vectors
    texts = None
    digest = words.corpus_digest
    same = digest is not None and digest == words.vocabulary.digest(encoded)
    seen = np.full(encoded.n_sentences, same)
    status, notes = "checked", []
    sources = [("The word vectors", words.fingerprint)]
    if as_fitted and vectorizer.learns_from_text:
        sources.append(("The fitted vectorizer", getattr(vectorizer, "fingerprint_", None)))
    for name, fingerprint in sources:
        if fingerprint is None:
            status = "unknown"
            notes.append(f"{name} carry no fingerprint of their text.")
            continue
        if texts is None:
            texts = Fingerprint.hashes(words.vocabulary, encoded)
        seen |= fingerprint.overlap(texts)
        typical = int(np.median(np.diff(encoded.offsets))) if encoded.n_sentences else 0
        chance = fingerprint.chance_to_notice(typical)
        notes.append(
            f"{name} keep {fingerprint.documents.size + fingerprint.runs.size:,} fingerprints; a "
            f"seen document of {typical:,} words would be noticed with chance {chance:.2g}."
        )
    return Provenance(status, " ".join(notes), seen)


def first_copies(encoded: Encoded) -> np.ndarray:
    """Rows of the documents without those that repeat the known words of an earlier one.

    Copies are not independent examples, so each is counted once. Documents of fewer than two known
    words are kept: they are left out, and counted, elsewhere.

    Examples
    --------
    >>> encoded = Encoded(np.array([4, 2, 4, 2, 7]), np.array([0, 2, 4, 5]), np.zeros(3, int))
    >>> first_copies(encoded)
    array([0, 2])
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
    """One clear line where the vectors have seen some of the documents."""
    n = int(found.seen.sum())
    if not n:
        return
    first = ", ".join(map(str, np.flatnonzero(found.seen)[:3]))
    raise ValueError(
        f"The word vectors or the vectorizer were trained on {n:,} of the {found.seen.size:,} "
        f"documents being certified, or on passages of them (document {first}"
        f"{', ...' if n > 3 else ''}), so they have seen the sample and no bound holds. Certify on "
        "other text, or pass overlap='drop' to leave these documents out."
    )
