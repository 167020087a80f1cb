"""Texts that depend on each other: units, splits by unit and by group, and what verify notices."""

import copy
import dataclasses

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds.binomial import upper_limit
from pacsent.certify import certify_predictions, read_certificate
from pacsent.certify.independence import (
    MIN_HELD_OUT_GROUPS,
    dependent_clusters,
    hold_out,
    holdout_fraction,
    one_row_per_cluster,
)
from pacsent.certify.near_duplicates import KnownTexts, near_duplicate_clusters, sketches
from pacsent.certify.repeats import divide_rows
from pacsent.datasets import load_banking

WORDS = [f"w{i}" for i in range(400)]


def drawn(rng, n, noise=0.3, length=12):
    """Texts of random words whose class is a coin but for one word in some of them."""
    y = rng.integers(0, 2, n)
    seen = np.where(rng.random(n) < 1 - 2 * noise, y, rng.integers(0, 2, n))
    texts = [" ".join([*rng.choice(WORDS, length), ("bad", "good")[s]]) for s in seen]
    return texts, np.array(["no", "yes"])[y]


def changed(rng, text):
    """The text with one word replaced."""
    words = text.split()
    words[rng.integers(len(words) - 1)] = str(rng.choice(WORDS))
    return " ".join(words)


def certify(texts, labels, seed, size="auto", groups=None):
    model = CertifiedClassifier(TextClassifier(None), calibration_size=size, random_state=seed)
    return model.fit(texts, labels, groups=groups)


def edits(a, b):
    """Levenshtein's distance of two lists of words, in the plainest way."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def clusters_by_hand(texts):
    """The place of each text's representative: all pairs are compared."""
    rows, places, direct = [text.lower().split() for text in texts], [], []
    for i, row in enumerate(rows):
        distances = [edits(row, other) for other in rows[:i]]
        limits = [max(len(row), len(other)) // 4 for other in rows[:i]]
        near = [(d, k) for k, d in enumerate(distances) if places[k] == k and d <= limits[k]]
        copied = [
            places[k] for k, d in enumerate(distances) if direct[k] and d <= min(1, limits[k])
        ]
        places.append(min(near)[1] if near else copied[0] if copied else i)
        direct.append(bool(near))
    return places


def test_clusters_are_those_of_all_pairs_with_the_representatives():
    rng = np.random.default_rng(0)
    texts = drawn(rng, 100, length=9)[0]
    texts += [changed(rng, text) for text in texts[:60]]
    texts += [changed(rng, changed(rng, text)) for text in texts[:30]]
    texts += [" ".join(text.split()[2:]) for text in texts[:30]] + ["w1", "w1 w2", "W1"]
    clusters = near_duplicate_clusters(texts)
    expected = clusters_by_hand(texts)
    assert len(set(zip(expected, clusters.tolist()))) == len(set(expected)) == clusters.max() + 1
    assert (clusters[:60] == clusters[100:160]).all()  # every copy with a changed word is found
    assert np.unique(clusters[:100]).size == 100  # and nothing else
    assert clusters[-1] == clusters[-3] != clusters[-2]


def test_clusters_are_numbered_by_their_first_texts():
    rng = np.random.default_rng(5)
    for _ in range(50):
        texts = [" ".join(rng.choice(WORDS[:6], rng.integers(0, 7))) for _ in range(12)]
        clusters = near_duplicate_clusters(texts)
        assert list(dict.fromkeys(clusters.tolist())) == list(range(clusters.max() + 1))
    assert near_duplicate_clusters([]).size == 0


def test_templates_do_not_chain_short_texts_into_one_cluster():
    texts, _ = load_banking(n_classes=12)
    clusters = near_duplicate_clusters(texts)
    sizes = np.bincount(clusters)
    assert len(texts) == 2106 and sizes.size >= 0.9 * len(texts) and sizes.max() < 10
    steps = [" ".join("abcdefghijklmnopqrstuvwxyz"[i : i + 8]) for i in range(18)]
    assert np.unique(near_duplicate_clusters(steps)).size > 5  # each is near the next
    rng = np.random.default_rng(0)
    words = [text.split() for text in texts]
    long = [i for i, row in enumerate(words) if len(row) >= 4][:500]
    copies = []
    for row in (words[i] for i in long):
        place = rng.integers(len(row))
        copies.append(" ".join([*row[:place], "zebra", *row[place + 1 :]]))
    both = near_duplicate_clusters([*texts, *copies])
    assert np.mean(both[long] == both[len(texts) :]) >= 0.99
    paraphrase = "my card has still not been delivered", "why is the card I ordered not here yet"
    assert np.unique(near_duplicate_clusters(paraphrase)).size == 2  # not found: other words


def test_copies_with_invisible_characters_or_full_width_letters_are_copies():
    text = "a dull film with no plot at all"
    wide = "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in text)
    copies = [text.replace("l", "l\u00ad"), text.replace("a", "\u200ba"), wide]
    assert near_duplicate_clusters([text, *copies, "so good"]).tolist() == [0, 0, 0, 0, 1]
    for known in (text, *copies):
        assert KnownTexts(sketches([known])).are_near([text, *copies]).all()


def test_splits_keep_units_together_and_do_not_depend_on_their_names():
    units = np.repeat(np.arange(60), 3)
    found = hold_out(units, 0.25, seed=4, repeats="copies")
    assert not set(units[found.held_out_rows]) & set(units[found.training_rows])
    assert np.unique(units[found.held_out_rows]).size == 15
    again = hold_out(1000 - 7 * units, 0.25, seed=4, repeats="copies")
    assert (again.held_out_rows == found.held_out_rows).all()
    assert hold_out(units, 0.25).seed != hold_out(units, 0.25).seed
    rows = one_row_per_cluster(units, seed=1)
    assert sorted(units[rows]) == list(range(60))
    drawn_rows = np.concatenate([one_row_per_cluster(units, seed) for seed in range(90)])
    assert np.bincount(drawn_rows % 3).min() > 1500
    groups = np.repeat(np.arange(40), 5)
    found = hold_out(np.arange(200), 0.5, seed=0, groups=groups)
    assert found.scope == "groups"
    assert not set(groups[found.held_out_rows]) & set(groups[found.training_rows])
    few = hold_out(np.arange(200), 0.5, seed=0, groups=groups // 4)
    assert few.scope == "same groups" and MIN_HELD_OUT_GROUPS > 5


@pytest.mark.parametrize(("fraction", "n_machine"), [(0.2, 0), (0.4, 0), (0.5, 2), (0.8, 0)])
def test_a_cluster_is_held_out_with_one_probability_however_often_it_repeats(fraction, n_machine):
    sizes = np.tile([1, 2, 3, 7], 100)
    clusters = np.repeat(np.arange(400), sizes)
    n_labelled = clusters.size
    clusters = np.concatenate([clusters, np.repeat(np.arange(400), n_machine)])
    rng = np.random.default_rng(0)
    is_held_out = np.zeros((150, 400), bool)
    in_traffic = np.zeros(150)
    naive = np.zeros((150, 400), bool)
    for draw in range(150):
        is_free, samples = divide_rows(clusters, fraction, rng, n_labelled=n_labelled)
        held_out = clusters[samples["copies"]]
        assert not np.isin(clusters[is_free], held_out).any()
        assert np.unique(held_out).size == held_out.size
        is_held_out[draw, held_out] = True
        in_traffic[draw] = samples["traffic"].size / n_labelled
        # the negative control: only clusters all of whose rows a coin holds out
        coins = rng.random(n_labelled) < fraction
        naive[draw] = np.bincount(clusters[:n_labelled], ~coins, minlength=400) == 0

    assert abs(in_traffic.mean() - fraction) < 0.01
    of_sizes = [is_held_out[:, sizes == size].mean() for size in (1, 2, 3, 7)]
    assert np.ptp(of_sizes) < 0.03  # six standard errors of a difference
    if fraction <= 0.5:
        assert abs(np.mean(of_sizes) - fraction) < 0.01
    assert naive[:, sizes == 7].mean() < naive[:, sizes == 1].mean() - 0.1


def test_without_repeats_both_samples_are_one_of_a_fixed_size():
    split = hold_out(np.arange(200), 0.25, seed=0)
    assert list(split.samples) == [""] and split.held_out_rows.size == 50
    repeated = hold_out(np.append(np.arange(199), 0), 0.25, seed=0)
    assert list(repeated.samples) == ["traffic", "copies"]


def test_the_share_follows_the_number_of_units():
    shares = [holdout_fraction("auto", n) for n in (20, 100, 600, 1000, 5000, 10**6)]
    assert shares == sorted(shares, reverse=True) and 0.1 <= shares[-1] < shares[0] <= 0.5
    for bad in (0, 1, "half", None, float("nan"), True):
        with pytest.raises(ValueError, match="calibration_size must be 'auto' or a fraction"):
            holdout_fraction(bad, 100)
    with pytest.raises(ValueError, match="random_state must be"):
        hold_out(np.arange(9), 0.5, seed=-1)


def test_a_guarantee_for_new_groups_and_one_that_is_not():
    """Every group has its own word, which tells its class."""
    rng = np.random.default_rng(5)
    of_group = rng.integers(0, 2, 40)
    groups = np.repeat(np.arange(40), 8)
    texts = [f"{t} author{g} writes{g}" for g, t in zip(groups, drawn(rng, 320)[0])]
    labels = np.array(["no", "yes"])[of_group[groups]]
    model = certify(texts, labels, 0, 0.4, groups)
    new_groups = model.certificate_
    same = certify(texts, labels, 0, 0.4).certificate_
    assert (new_groups.scope, new_groups.n) == ("groups", 16)
    assert "texts of new groups" in new_groups.summary()
    assert same.error_upper < 0.1 < 0.4 < new_groups.error_upper
    assert new_groups.verify(model, texts, labels, groups=groups)
    assert model.calibration_.labels.size == 16  # one text of each group
    # 10 of 20 groups would be enough, 4 are not: texts of all groups are held out
    few = certify(texts, labels, 0, 0.2, groups // 2)
    assert (few.certificate_.scope, few.certificate_.n_groups) == ("same groups", 20)
    assert "NOT a guarantee for new groups" in few.certificate_.summary()
    assert few.certificate_.verify(few, texts, labels, groups=groups // 2)


@pytest.fixture(scope="module")
def fitted():
    texts, labels = drawn(np.random.default_rng(7), 160)
    return certify(texts, labels, 3), texts, labels


def test_a_certificate_is_checked_with_its_model_and_texts(fitted):
    model, texts, labels = fitted
    certificate = read_certificate(model.certificate_.to_json())
    assert (certificate.random_state, certificate.calibration_size) == (3, 0.4)
    assert set(certificate.digests) == {"model", "weights", "texts", "labels", "predictions"}
    found = certificate.verify(model, texts, labels)
    assert "the counts follow from the texts and the model" in str(found)
    assert "provenance" in found.unchecked and "digests" not in found.unchecked
    assert "labels corrected after predictions" in found.unchecked
    alone = certificate.verify()
    assert alone and "digests" in alone.unchecked
    held_out = hold_out(dependent_clusters(texts), 0.4, 3).held_out_rows
    assert certificate.verify(model, [texts[i] for i in held_out], labels[held_out])


def with_weights(certified, **weights):
    """A copy of a certified classifier with other weights."""
    changed = copy.deepcopy(certified)
    fitted = changed.estimator_.fitted_
    changed_model = dataclasses.replace(fitted.model, **weights)
    changed.estimator_.fitted_ = dataclasses.replace(fitted, model=changed_model)
    return changed


def test_what_is_not_the_certified_model_or_text_is_refused(fitted):
    model, texts, labels = fitted
    certificate = model.certificate_
    weights = model.estimator_.fitted_.model
    negated = with_weights(
        model,
        coef_ngrams=-weights.coef_ngrams,
        coef_dense=-weights.coef_dense,
        intercept=-weights.intercept,
    )
    nudged = with_weights(model, intercept=weights.intercept * (1 + 1e-9))
    other = certify(texts, labels, 4)
    fewer = dataclasses.replace(
        certificate, n_errors=0, error_upper=upper_limit(0, certificate.n, 0.05)
    )
    assert fewer.verify()  # it is not impossible by itself
    for stated, given, message in (
        (certificate, (negated, texts, labels), "The (predictions|model) must be what was cert"),
        (certificate, (nudged, texts, labels), "The model must be what was certified"),
        (certificate, (other, texts, labels), "must be what was certified"),
        (certificate, (model, texts, labels[::-1]), "The labels must be what was certified"),
        (certificate, (model, [*texts[1:], "new"], labels), "X must be the texts that were"),
        (other.certificate_, (model, texts, labels), "must be what was certified"),
        (fewer, (model, texts, labels), "n_errors must be"),
        (
            dataclasses.replace(certificate, random_state=5),
            (model, texts, labels),
            "X must be the texts",
        ),
        (certificate, (model, texts, None), "must be given together"),
    ):
        with pytest.raises(ValueError, match=message):
            stated.verify(*given)


def test_a_foreign_model_and_bare_predictions_are_checked_by_what_they_say(fitted):
    _, texts, labels = fitted
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    certificate = CertifiedClassifier(model, random_state=0).fit(texts, labels)
    found = certificate.certificate_.verify(certificate, texts, labels)
    assert "the model beyond its predictions" in found.unchecked
    said = np.where(np.arange(len(texts)) % 3, labels, "no")
    plain = certify_predictions(labels, said, texts=texts, recall="all", precision=["no"])
    assert plain.verify(said, texts, labels)
    with pytest.raises(ValueError, match="The predictions must be what was certified"):
        plain.verify(labels, texts, labels)


def test_near_duplicates_stay_in_one_fold():
    rng = np.random.default_rng(3)
    texts, labels = drawn(rng, 100, noise=0.5)
    texts += [changed(rng, text) for text in texts]
    model = TextClassifier(None, selection="folds", Cs=(6.0,), weighting="tf-idf")
    model.fit(texts, np.tile(labels, 2))
    found = model.out_of_fold_
    assert np.mean(found.log_proba.argmax(axis=1) == found.labels) < 0.65


@pytest.mark.slow
@pytest.mark.parametrize("how", ["one word changed", "copies"])
def test_every_text_twice_does_not_break_the_bound(how):
    """The classifier learns texts by heart; on new ones it is a coin for most."""
    n_broken = n_broken_by_rows = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        texts, labels = drawn(rng, 60, noise=0.4)
        twins = texts if how == "copies" else [changed(rng, text) for text in texts]
        both, y = [*texts, *twins], np.tile(labels, 2)
        new, expected = drawn(rng, 1000, noise=0.4)
        model = CertifiedClassifier(
            TextClassifier(None), calibration_size=0.4, repeats="copies", random_state=seed
        ).fit(both, y)
        assert (model.certificate_.n, model.certificate_.n_duplicates) == (24, 24)
        n_broken += np.mean(model.predict(new) != expected) > model.certificate_.error_upper
        # the negative control: rows drawn one by one, as if they were independent
        tested, fitted = np.split(rng.permutation(120), [48])
        naive = TextClassifier(None).fit([both[i] for i in fitted], y[fitted])
        wrong = int((naive.predict([both[i] for i in tested]) != y[tested]).sum())
        n_broken_by_rows += np.mean(naive.predict(new) != expected) > upper_limit(wrong, 48, 0.05)
    assert n_broken == 0 and n_broken_by_rows >= 3
