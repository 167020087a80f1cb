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


def draw_texts(rng, n, noise=0.3, length=12):
    """Texts of random words whose class is a coin but for one word in some of them."""
    y = rng.integers(0, 2, n)
    is_informative = rng.random(n) < 1 - 2 * noise
    shown = np.where(is_informative, y, rng.integers(0, 2, n))
    texts = []
    for label in shown:
        words = [*rng.choice(WORDS, length), ("bad", "good")[label]]
        texts.append(" ".join(words))
    return texts, np.array(["no", "yes"])[y]


def replace_word(rng, text):
    """The text with one word replaced."""
    words = text.split()
    words[rng.integers(len(words) - 1)] = str(rng.choice(WORDS))
    return " ".join(words)


def fit_certified(texts, labels, seed, size="auto", groups=None):
    model = CertifiedClassifier(TextClassifier(None), calibration_size=size, random_state=seed)
    return model.fit(texts, labels, groups=groups)


def levenshtein(a, b):
    """Levenshtein's distance of two lists of words, in the plainest way."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal = row[0]
        row[0] = i
        for j, y in enumerate(b, 1):
            replaced = diagonal + (x != y)
            diagonal = row[j]
            row[j] = min(replaced, row[j] + 1, row[j - 1] + 1)
    return row[-1]


def cluster_by_hand(texts):
    """The place of each text's representative: all pairs are compared."""
    rows = [text.lower().split() for text in texts]
    places = []
    is_near_representative = []
    for i, row in enumerate(rows):
        near = []  # (distance, place) of representatives
        copied = []  # representatives of texts that are near to this one but for a word
        for k, other in enumerate(rows[:i]):
            distance = levenshtein(row, other)
            limit = max(len(row), len(other)) // 4
            if places[k] == k and distance <= limit:
                near.append((distance, k))
            if is_near_representative[k] and distance <= min(1, limit):
                copied.append(places[k])

        if near:
            _, place = min(near)
        elif copied:
            place = copied[0]
        else:
            place = i
        places.append(place)
        is_near_representative.append(bool(near))
    return places


@pytest.fixture(scope="module")
def texts_with_copies():
    """A hundred texts, changed copies of some, shortened ones, and texts of one or two words."""
    rng = np.random.default_rng(0)
    texts, _ = draw_texts(rng, 100, length=9)
    texts += [replace_word(rng, text) for text in texts[:60]]
    texts += [replace_word(rng, replace_word(rng, text)) for text in texts[:30]]
    texts += [" ".join(text.split()[2:]) for text in texts[:30]]
    return texts + ["w1", "w1 w2", "W1"]


def test_clusters_are_those_of_all_pairs_with_the_representatives(texts_with_copies):
    clusters = near_duplicate_clusters(texts_with_copies)

    expected = cluster_by_hand(texts_with_copies)
    pairs = set(zip(expected, clusters.tolist()))
    assert len(pairs) == len(set(expected)) == clusters.max() + 1


def test_copies_with_a_changed_word_are_found_and_nothing_else(texts_with_copies):
    clusters = near_duplicate_clusters(texts_with_copies)

    assert (clusters[:60] == clusters[100:160]).all()
    assert np.unique(clusters[:100]).size == 100
    assert clusters[-1] == clusters[-3] != clusters[-2]


def test_clusters_are_numbered_by_their_first_texts():
    rng = np.random.default_rng(5)

    for _ in range(50):
        texts = [" ".join(rng.choice(WORDS[:6], rng.integers(0, 7))) for _ in range(12)]
        clusters = near_duplicate_clusters(texts)
        in_order = list(dict.fromkeys(clusters.tolist()))
        assert in_order == list(range(clusters.max() + 1))


def test_no_text_has_no_cluster():
    assert near_duplicate_clusters([]).size == 0


@pytest.fixture(scope="module")
def banking_texts():
    texts, _ = load_banking(n_classes=12)
    return texts


def test_templates_do_not_chain_short_texts_into_one_cluster(banking_texts):
    sizes = np.bincount(near_duplicate_clusters(banking_texts))

    assert len(banking_texts) == 2106
    assert sizes.size >= 0.9 * len(banking_texts)
    assert sizes.max() < 10


def test_texts_of_which_each_is_near_the_next_are_several_clusters():
    texts = [" ".join("abcdefghijklmnopqrstuvwxyz"[i : i + 8]) for i in range(18)]

    assert np.unique(near_duplicate_clusters(texts)).size > 5


def test_short_texts_with_a_changed_word_are_found(banking_texts):
    rng = np.random.default_rng(0)
    words_of_texts = [text.split() for text in banking_texts]
    long_rows = [row for row, words in enumerate(words_of_texts) if len(words) >= 4][:500]
    copies = []
    for row in long_rows:
        words = list(words_of_texts[row])
        words[rng.integers(len(words))] = "zebra"
        copies.append(" ".join(words))

    clusters = near_duplicate_clusters([*banking_texts, *copies])

    of_copies = clusters[len(banking_texts) :]
    assert np.mean(clusters[long_rows] == of_copies) >= 0.99


def test_a_paraphrase_in_other_words_is_not_found():
    texts = ["my card has still not been delivered", "why is the card I ordered not here yet"]

    assert np.unique(near_duplicate_clusters(texts)).size == 2


PLAIN = "a dull film with no plot at all"
DISGUISED = [
    PLAIN.replace("l", "l\u00ad"),
    PLAIN.replace("a", "\u200ba"),
    "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in PLAIN),  # full width
]


def test_copies_with_invisible_characters_or_full_width_letters_are_copies():
    clusters = near_duplicate_clusters([PLAIN, *DISGUISED, "so good"])

    assert clusters.tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("fitted_text", [PLAIN, *DISGUISED])
def test_disguised_copies_of_fitted_texts_are_recognised(fitted_text):
    known = KnownTexts(sketches([fitted_text]))

    assert known.are_near([PLAIN, *DISGUISED]).all()


CLUSTERS = np.repeat(np.arange(60), 3)


def test_splits_keep_clusters_together():
    split = hold_out(CLUSTERS, 0.25, seed=4, repeats="copies")

    held_out = set(CLUSTERS[split.held_out_rows])
    assert len(held_out) == 15
    assert not held_out & set(CLUSTERS[split.training_rows])


def test_splits_do_not_depend_on_the_names_of_clusters():
    split = hold_out(CLUSTERS, 0.25, seed=4, repeats="copies")
    renamed = hold_out(1000 - 7 * CLUSTERS, 0.25, seed=4, repeats="copies")

    assert (renamed.held_out_rows == split.held_out_rows).all()


def test_a_seed_that_is_not_given_is_drawn():
    assert hold_out(CLUSTERS, 0.25).seed != hold_out(CLUSTERS, 0.25).seed


def test_one_row_of_each_cluster_is_drawn_with_equal_chances():
    rows = one_row_per_cluster(CLUSTERS, seed=1)
    many_rows = np.concatenate([one_row_per_cluster(CLUSTERS, seed) for seed in range(90)])

    assert sorted(CLUSTERS[rows]) == list(range(60))
    assert np.bincount(many_rows % 3).min() > 1500


def test_whole_groups_are_held_out():
    groups = np.repeat(np.arange(40), 5)

    split = hold_out(np.arange(200), 0.5, seed=0, groups=groups)

    assert split.scope == "groups"
    assert not set(groups[split.held_out_rows]) & set(groups[split.training_rows])


def test_texts_of_all_groups_are_held_out_if_there_are_few_groups():
    groups = np.repeat(np.arange(10), 20)

    split = hold_out(np.arange(200), 0.5, seed=0, groups=groups)

    assert MIN_HELD_OUT_GROUPS > 5
    assert split.scope == "same groups"


@pytest.mark.parametrize(
    ("fraction", "n_machine", "rate"),
    [
        (0.2, 0, 0.2),
        (0.4, 0, 0.4),
        (0.4, 1, 0.4),
        (0.5, 2, 0.5),
        (0.8, 0, 1 - 3 * 0.2 * 0.8**2),  # three rows, of which just one is left, are most probable
        (0.8, 2, 1 - 0.8),  # beside rows of a machine, the only labelled row is not left
    ],
)
def test_a_cluster_is_held_out_with_one_probability_however_often_it_repeats(
    fraction, n_machine, rate
):
    """The negative control holds out the clusters all of whose rows a coin holds out."""
    n_draws = 150
    sizes = np.tile([1, 2, 3, 7], 100)
    labelled = np.repeat(np.arange(400), sizes)
    clusters = np.concatenate([labelled, np.repeat(np.arange(400), n_machine)])
    rng = np.random.default_rng(0)
    is_held_out = np.zeros((n_draws, 400), bool)
    is_held_out_by_coins = np.zeros((n_draws, 400), bool)
    fractions_of_traffic = np.zeros(n_draws)

    for draw in range(n_draws):
        is_free, samples = divide_rows(clusters, fraction, rng, n_labelled=labelled.size)
        held_out = clusters[samples["copies"]]
        assert not np.isin(clusters[is_free], held_out).any()
        assert np.unique(held_out).size == held_out.size
        is_held_out[draw, held_out] = True
        fractions_of_traffic[draw] = samples["traffic"].size / labelled.size

        coins = rng.random(labelled.size) < fraction
        is_held_out_by_coins[draw] = np.bincount(labelled, ~coins, minlength=400) == 0

    rates = [is_held_out[:, sizes == size].mean() for size in (1, 2, 3, 7)]
    assert abs(fractions_of_traffic.mean() - fraction) < 0.01
    assert np.ptp(rates) < 0.03  # six standard errors of a difference
    assert abs(np.mean(rates) - rate) < 0.01
    of_single = is_held_out_by_coins[:, sizes == 1].mean()
    assert is_held_out_by_coins[:, sizes == 7].mean() < of_single - 0.1


def test_a_row_of_a_machine_is_free_where_all_labelled_copies_are_in_the_sample_of_rows():
    clusters = np.tile(np.arange(400), 2)  # one labelled row, and one of a machine
    rng = np.random.default_rng(0)

    is_free, samples = divide_rows(clusters, 0.4, rng, n_labelled=400)

    assert is_free[400 + samples["traffic"]].all()


def test_without_repeats_both_samples_are_one_of_a_fixed_size():
    split = hold_out(np.arange(200), 0.25, seed=0)

    assert list(split.samples) == [""]
    assert split.held_out_rows.size == 50


def test_with_a_repeat_there_are_two_samples():
    split = hold_out(np.append(np.arange(199), 0), 0.25, seed=0)

    assert list(split.samples) == ["traffic", "copies"]


def test_the_held_out_fraction_decreases_with_the_number_of_clusters():
    fractions = [holdout_fraction("auto", n) for n in (20, 100, 600, 1000, 5000, 10**6)]

    assert fractions == sorted(fractions, reverse=True)
    assert 0.1 <= fractions[-1] < fractions[0] <= 0.5


@pytest.mark.parametrize("size", [0, 1, "half", None, float("nan"), True])
def test_a_size_that_is_no_fraction_is_refused(size):
    with pytest.raises(ValueError, match="calibration_size must be 'auto' or a fraction"):
        holdout_fraction(size, 100)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="random_state must be"):
        hold_out(np.arange(9), 0.5, seed=-1)


class TextsOfAuthors:
    """Texts of 40 authors, each of whom has words and a class of their own."""

    def __init__(self):
        rng = np.random.default_rng(5)
        class_of_author = rng.integers(0, 2, 40)
        self.authors = np.repeat(np.arange(40), 8)
        texts, _ = draw_texts(rng, 320)
        self.texts = [f"{t} author{a} writes{a}" for a, t in zip(self.authors, texts)]
        self.labels = np.array(["no", "yes"])[class_of_author[self.authors]]


@pytest.fixture(scope="module")
def by_authors():
    return TextsOfAuthors()


def test_a_guarantee_for_new_groups_counts_one_text_of_each(by_authors):
    data = by_authors

    model = fit_certified(data.texts, data.labels, 0, 0.4, data.authors)

    certificate = model.certificate_
    assert (certificate.scope, certificate.n) == ("groups", 16)
    assert "texts of new groups" in certificate.summary()
    assert certificate.verify(model, data.texts, data.labels, groups=data.authors)
    assert model.calibration_.labels.size == 16


def test_texts_of_new_groups_are_harder_than_those_of_the_same(by_authors):
    data = by_authors

    of_groups = fit_certified(data.texts, data.labels, 0, 0.4, data.authors).certificate_
    of_texts = fit_certified(data.texts, data.labels, 0, 0.4).certificate_

    assert of_texts.error_upper < 0.1
    assert of_groups.error_upper > 0.4


def test_four_held_out_groups_are_no_guarantee_for_new_ones(by_authors):
    """Ten of twenty would be enough; with four, texts of all groups are held out."""
    data = by_authors
    groups = data.authors // 2

    model = fit_certified(data.texts, data.labels, 0, 0.2, groups)

    certificate = model.certificate_
    assert (certificate.scope, certificate.n_groups) == ("same groups", 20)
    assert "NOT a guarantee for new groups" in certificate.summary()
    assert certificate.verify(model, data.texts, data.labels, groups=groups)


@pytest.fixture(scope="module")
def fitted():
    """A certified classifier with its texts and labels."""
    texts, labels = draw_texts(np.random.default_rng(7), 160)
    return fit_certified(texts, labels, 3), texts, labels


@pytest.fixture
def certificate(fitted):
    """The certificate of the classifier, written and read."""
    model, _, _ = fitted
    return read_certificate(model.certificate_.to_json())


def test_a_certificate_records_what_was_certified(certificate):
    names = {"model", "weights", "texts", "labels", "predictions"}

    assert (certificate.random_state, certificate.calibration_size) == (3, 0.4)
    assert set(certificate.digests) == names


def test_a_certificate_is_checked_with_its_model_and_texts(fitted, certificate):
    verified = certificate.verify(*fitted)

    assert "the counts follow from the texts and the model" in str(verified)
    assert "provenance" in verified.unchecked
    assert "labels corrected after predictions" in verified.unchecked
    assert "digests" not in verified.unchecked


def test_a_certificate_is_checked_alone_but_for_its_digests(certificate):
    verified = certificate.verify()

    assert verified
    assert "digests" in verified.unchecked


def test_a_certificate_is_checked_with_the_held_out_texts(fitted, certificate):
    model, texts, labels = fitted
    rows = hold_out(dependent_clusters(texts), 0.4, 3).held_out_rows

    assert certificate.verify(model, [texts[row] for row in rows], labels[rows])


def replace_weights(certified, **weights):
    """A copy of a certified classifier with other weights."""
    changed = copy.deepcopy(certified)
    fitted = changed.estimator_.fitted_
    model = dataclasses.replace(fitted.model, **weights)
    changed.estimator_.fitted_ = dataclasses.replace(fitted, model=model)
    return changed


def test_a_model_with_negated_weights_is_refused(fitted):
    model, texts, labels = fitted
    weights = model.estimator_.fitted_.model
    negated = replace_weights(
        model,
        coef_ngrams=-weights.coef_ngrams,
        coef_dense=-weights.coef_dense,
        intercept=-weights.intercept,
    )

    with pytest.raises(ValueError, match=r"The (predictions|model) must be what was cert"):
        model.certificate_.verify(negated, texts, labels)


def test_a_model_with_almost_the_same_weights_is_refused(fitted):
    model, texts, labels = fitted
    intercept = model.estimator_.fitted_.model.intercept
    changed = replace_weights(model, intercept=intercept * (1 + 1e-9))

    with pytest.raises(ValueError, match="The model must be what was certified"):
        model.certificate_.verify(changed, texts, labels)


def test_another_model_and_the_certificate_of_another_model_are_refused(fitted):
    model, texts, labels = fitted
    other = fit_certified(texts, labels, 4)

    with pytest.raises(ValueError, match="must be what was certified"):
        model.certificate_.verify(other, texts, labels)
    with pytest.raises(ValueError, match="must be what was certified"):
        other.certificate_.verify(model, texts, labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda texts, labels: (texts, labels[::-1]), "The labels must be what was certified"),
        (lambda texts, labels: ([*texts[1:], "new"], labels), "X must be the texts that were"),
        (lambda texts, labels: (texts, None), "must be given together"),
    ],
    ids=["labels", "texts", "no labels"],
)
def test_other_texts_or_labels_are_refused(fitted, change, message):
    model, texts, labels = fitted

    with pytest.raises(ValueError, match=message):
        model.certificate_.verify(model, *change(texts, labels))


def test_a_certificate_of_fewer_errors_is_refused_with_the_texts(fitted):
    certificate = fitted[0].certificate_
    bound = upper_limit(0, certificate.n, 0.05)
    fewer = dataclasses.replace(certificate, n_errors=0, error_upper=bound)

    assert fewer.verify()  # it is not impossible by itself
    with pytest.raises(ValueError, match="n_errors must be"):
        fewer.verify(*fitted)


def test_a_certificate_with_another_seed_is_refused_with_the_texts(fitted):
    other_seed = dataclasses.replace(fitted[0].certificate_, random_state=5)

    with pytest.raises(ValueError, match="X must be the texts"):
        other_seed.verify(*fitted)


def test_a_model_of_others_is_checked_by_its_predictions(fitted):
    _, texts, labels = fitted
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    certified = CertifiedClassifier(model, random_state=0).fit(texts, labels)

    verified = certified.certificate_.verify(certified, texts, labels)

    assert "the model beyond its predictions" in verified.unchecked


def test_a_certificate_of_predictions_is_checked_with_them(fitted):
    _, texts, labels = fitted
    predictions = np.where(np.arange(len(texts)) % 3, labels, "no")

    certificate = certify_predictions(
        labels, predictions, texts=texts, recall="all", precision=["no"]
    )

    assert certificate.verify(predictions, texts, labels)
    with pytest.raises(ValueError, match="The predictions must be what was certified"):
        certificate.verify(labels, texts, labels)


def test_what_stays_unchecked_of_predictions_that_are_given_is_listed(fitted):
    _, texts, labels = fitted
    certificate = certify_predictions(labels, labels, texts=texts)

    verified = certificate.verify(labels, texts, labels)

    assert verified.unchecked == (
        "provenance, labels corrected after predictions, choices beyond corrections, "
        "the model beyond its predictions"
    )


def test_near_duplicates_stay_in_one_fold():
    """The labels are coins: a copy in another fold would make them predictable."""
    rng = np.random.default_rng(3)
    texts, labels = draw_texts(rng, 100, noise=0.5)
    texts += [replace_word(rng, text) for text in texts]
    model = TextClassifier(None, selection="folds", Cs=(6.0,), weighting="tf-idf")

    out_of_fold = model.fit(texts, np.tile(labels, 2)).out_of_fold_

    is_right = out_of_fold.log_proba.argmax(axis=1) == out_of_fold.labels
    assert np.mean(is_right) < 0.65


def certify_rows_one_by_one(texts, labels, rng):
    """A classifier of random rows, and the bound for the others as if they were independent."""
    tested, fitted = np.split(rng.permutation(len(texts)), [48])
    model = TextClassifier(None).fit([texts[row] for row in fitted], labels[fitted])
    predictions = model.predict([texts[row] for row in tested])
    n_errors = int((predictions != labels[tested]).sum())
    return model, upper_limit(n_errors, 48, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("is_changed", [True, False], ids=["one word changed", "copies"])
def test_every_text_twice_does_not_break_the_bound(is_changed):
    """The classifier learns texts by heart; on new ones it is a coin for most."""
    n_false = 0
    n_false_by_rows = 0

    for seed in range(4):
        rng = np.random.default_rng(seed)
        texts, labels = draw_texts(rng, 60, noise=0.4)
        copies = [replace_word(rng, text) for text in texts] if is_changed else texts
        twice = [*texts, *copies]
        labels_twice = np.tile(labels, 2)
        new_texts, new_labels = draw_texts(rng, 1000, noise=0.4)

        model = CertifiedClassifier(
            TextClassifier(None), calibration_size=0.4, repeats="copies", random_state=seed
        )
        certificate = model.fit(twice, labels_twice).certificate_
        assert (certificate.n, certificate.n_duplicates) == (24, 24)
        error = np.mean(model.predict(new_texts) != new_labels)
        n_false += error > certificate.error_upper

        # The negative control.
        by_rows, bound = certify_rows_one_by_one(twice, labels_twice, rng)
        error = np.mean(by_rows.predict(new_texts) != new_labels)
        n_false_by_rows += error > bound

    assert n_false == 0
    assert n_false_by_rows >= 3
