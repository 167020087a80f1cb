"""The paper, item by item: every label and setting has a command, and every command its value.

The expected values come from the golden file (forty digits, another program), from the paper's own
tables, or from a few lines of plain Python here.
"""

import math
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_equal
from scipy import optimize

from pacsent.paper import manifest
from pacsent.paper.manifest import ITEMS, STATES

# Every \label of the LaTeX source of arXiv:1902.04247, in its order.
LABELS = (
    "sec:skipgram",
    "eq:sg-neg",
    "eq:neg-loss",
    "eq:average-sentence-vector",
    "eq:both-average-sentence-vector",
    "sec:pac-bayes",
    "theorem:pac-bayes-bound",
    "eq:pac-bayes-bound",
    "sec:pac-bayesian-anaysis-of-regression",
    "sec:generalization",
    "eq:multinomial-distribution",
    "theorem:loss-Transfer-vectors",
    "eq:general_loss",
    "eq:avg",
    "eq:variance-avg",
    "cor:average",
    "cor:average-both",
    "eq:idf",
    "eq:idf-weighting",
    "eq:idf-variance-avg",
    "eq:proposed-loss",
    "sec:other-transfers",
    "sec:words-based-sentence-vectors",
    "eq:averaging-model",
    "theorem:word-based-loss-transfer-vectors",
    "eq:word_general_loss",
    "eq:proposed-loss-sentence",
    "eq:word-depend-variance",
    "sec:swap-prior",
    "tb:comparison-tasks",
    "tb:supervised_datasets",
    "tb:classification-results",
    "sec:proof-bayes-bound",
    "eq:pac-bayes-loss",
    "eq:explicit-kl-poe",
    "eq:kl_term_one_sentence",
    "sec:losses",
    "eq:squared_loss",
    "eq:squared_loss_one_sentence",
    "sec:idf",
    "eq:idf-explict-loss",
)

# Settings and remarks without a label, as the paper has them.
UNLABELLED = (
    "complexity term does not contribute",
    "Paris",
    "sign(h.W x)",
    "sum of o_w",
    "Minimising the bound",
    "product of experts",
    "assumed bounded",
    "beta/2",
    "relative within",
    "PV-DBOW",
    "initialised at their priors",
    "source task",
    "wikifil",
    "80/20",
    "i- rows",
    "{1/4, ..., 8}",
    "40 epochs",
    "its own negative samples",
    "U(-0.5/300",
    "5 folds",
    "reparameterisation",
    "Lazy",
    "more stable",
    "contextual",
    "sub-sampling",
)


@pytest.fixture(scope="module")
def names():
    """What the commands of the items may name."""
    return manifest.namespace()


# ---- every label and setting is an item ------------------------------------------------------


def test_every_label_of_the_paper_is_an_item_and_nothing_else():
    found = Counter(label for item in ITEMS for label in item.labels)

    assert len(LABELS) == 41
    assert found == Counter(LABELS)


def test_every_setting_without_a_label_is_an_item():
    titles = [item.title for item in ITEMS if not item.labels]

    assert len(titles) == len(UNLABELLED)
    for setting, title in zip(UNLABELLED, titles):
        assert setting in title


def test_items_are_numbered_from_one_to_fifty():
    assert [item.number for item in ITEMS] == list(range(1, 51))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.number}")
def test_an_item_has_a_state_a_command_and_a_place_or_a_reason(item):
    assert item.state in STATES
    assert item.command
    assert item.code or item.state == "undone"
    assert item.note or item.state == "as printed"


# ---- values that the paper states ------------------------------------------------------------

FULL_SIZES = [
    {"train": 11_314, "test": 7_532, "classes": 20},
    {"train": 25_000, "test": 25_000, "classes": 2},
    {"train": 10_000, "test": 0, "classes": 2},  # SUBJ: 8,000 and 2,000 after the split
]
PB_METHODS = ["PB-L2", "PB-IDF-L2", "PB-neg", "w-PB-neg"]
SWAPPED_METHODS = ["i-PB-L2", "i-PB-IDF-L2", "i-PB-neg", "i-w-PB-neg"]
AVERAGES = ["Average-0", "Average-1", "IDF-Average-0", "IDF-Average-1"]
SWAPPED_AVERAGES = ["i-Average-0", "i-IDF-Average-0"]
WORDS_OF_TEXT = ["it", "is", "one", "two", "amp", "br", "good"]
MARGINS = {"heuristics": 0.017, "squared loss": 0.018, "zero-one loss": 0.004}


STATED = {
    3: 8.0 / 25.0,  # lambda divided by the largest loss
    6: 20.0,  # distributions over words
    7: 3 + 15 * 3,  # 15 negative samples for each of three tokens
    24: (3, 4),
    26: True,
    27: (3, 4),
    28: [6.0, 6.0, 3.0, 12.0, 12.0, 12.0, 12.0],
    31: [*PB_METHODS, *SWAPPED_METHODS],
    32: [300, 5, 15, 1e-4],
    33: WORDS_OF_TEXT,
    34: FULL_SIZES,
    35: [40, 10],  # epochs
    36: [*AVERAGES, *SWAPPED_AVERAGES],
    38: [False, False, True],
    39: (2 * 3,),
    40: True,
    41: (3, 5),
    44: (0.753, 0.841, 0.905),
    45: MARGINS,
    46: False,
}


@pytest.mark.parametrize("number", STATED)
def test_the_command_of_an_item_gives_the_value_that_the_paper_states(number, names):
    assert_equal(run(number, names), STATED[number])


@pytest.mark.slow  # PB-neg on the books that ship
def test_the_command_of_the_paris_example_lists_its_words_as_noise(names):
    found = run(8, names)

    assert found == [("paris", -1), ("beautiful", -1), ("cities", -1), ("world", -1)]


def run(number, names):
    """What the command of an item gives."""
    return manifest.run(ITEMS[number - 1], names)


# ---- values by another route -----------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(golden):
    """The golden numbers of the methods."""
    return golden("methods")


class Example:
    """The first sentence of the worked example, as arrays for plain Python."""

    def __init__(self, facts):
        example = facts["example"]
        self.facts = facts
        self.input_vectors = np.array(example["I"])
        self.output_vectors = np.array(example["O"])
        self.idf = np.array(example["idf"])
        self.tokens = example["sentences"][0]
        self.inputs = self.input_vectors[self.tokens]
        self.outputs = self.output_vectors[self.tokens]
        self.token_idf = self.idf[self.tokens]
        self.prior_mean = sum(self.outputs) / 5
        self.mu = self.input_vectors[3]

    def golden(self, method, **settings):
        """mu (and variances) of the sentence in the golden file."""
        wanted = {"method": method, "sentence": 0, **settings}
        for row in self.facts["closed_form"]:
            if wanted.items() <= row.items():
                return row
        raise KeyError(method)


@pytest.fixture(scope="module")
def example(facts):
    """The worked example, and its golden numbers."""
    return Example(facts)


ROUTES = {}  # number of an item -> function of the example that gives its value


def route(number):
    """Registers a function as the other route to the value of an item."""

    def register(function):
        ROUTES[number] = function
        return function

    return register


def negative_sampling_loss(sentence, tokens, negatives, table):
    """Of a vector, with the samples drawn for each token."""
    total = 0.0
    for token, drawn in zip(tokens, negatives):
        score = float(sentence @ table[token])
        total += math.log1p(math.exp(-score))
        for word in drawn:
            noise_score = float(sentence @ table[word])
            total += math.log1p(math.exp(noise_score))
    return total


@route(1)
def loss_of_skipgram(example):
    negatives = [[3, 4, 5], [0, 1, 6]]
    centre = example.output_vectors[0]
    return negative_sampling_loss(centre, [1, 2], negatives, example.input_vectors)


@route(5)
def catoni_at_three_lambdas(example):
    C = np.array([8.0, 200.0, 1e6]) / 200
    complexity = (5 + math.log(20)) / 200
    exponent = C * 0.1 + complexity
    catoni = (1 - np.exp(-exponent)) / (1 - np.exp(-C))
    return np.minimum(catoni, 1.0)


@route(9)
def signs_of_the_scores(example):
    scores = example.input_vectors[:4] @ example.input_vectors[0]
    return [1 if score > 0 else -1 for score in scores]


@route(10)
def minimum_under_the_first_prior(example):
    def loss(vector):
        from_prior = vector - sum(example.outputs)
        data = squared_distance(vector, example.inputs).mean() / 2
        return data + 0.5 * from_prior @ from_prior / 3.0

    return optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).x


def squared_distance(vector, rows):
    """From every row."""
    return ((vector - rows) ** 2).sum(axis=1)


@route(12)
def penalty_of_theorem_2(example):
    """Of the mean, and of the variance 0.5, at lambda 2."""
    difference = example.mu - example.prior_mean
    of_mean = 2.5 / 2.0 * float(difference @ difference)
    of_variance = 20 / 4 * (math.log(1 / 0.5) + 0.5)
    return of_mean, of_variance


@route(13)
@route(25)
def mean_of_the_prior(example):
    return example.prior_mean


@route(14)
def expected_squared_loss(example):
    of_variance = 4 * 0.5
    return np.mean(squared_distance(example.mu, example.inputs) + of_variance) / 2


@route(49)
def loss_of_theorem_2(example):
    return expected_squared_loss(example) + sum(penalty_of_theorem_2(example))


@route(2)
@route(17)
def average_of_both_matrices(example):
    return example.golden("Average", alpha=1.0)["mu"]


@route(15)
def mean_of_pb_l2(example):
    return example.golden("PB-L2", lam=0.25, sigma_P2=1.0)["mu"]


@route(16)
def variances_of_pb_l2(example):
    row = example.golden("PB-L2", lam=0.25, sigma_P2=1.0)
    return row["var_printed"], row["var_exact_kl"]


@route(18)
def inverse_document_frequencies(example):
    return example.idf


@route(19)
def first_number_with_each_factor(example):
    """Eq. idf-weighting from the loss factor n IDF/2 |i - h|^2, solved at lambda 2."""
    prior_weights = example.token_idf / 2.0
    numbers = []
    for factor in (2.0, 1.0):
        weights = factor * example.token_idf
        top = weights @ example.inputs + prior_weights @ example.outputs
        numbers.append(top[0] / (weights.sum() + prior_weights.sum()))
    return numbers


@route(20)
def mean_of_pb_idf_l2(example):
    return example.golden("PB-IDF-L2", lam=0.25)["mu"]


@route(21)
def variances_of_pb_idf_l2(example):
    row = example.golden("PB-IDF-L2", lam=0.25)
    return row["var_printed"], row["var_exact_kl"]


@route(22)
def idf_average_over_average_of_the_first_two_words(example):
    weights = example.idf[:2]
    vectors = example.input_vectors[:2]
    idf_average = weights @ vectors / weights.sum()
    return [idf_average / vectors.mean(axis=0)]


@route(23)
def optimum_of_the_printed_pb_neg(example):
    wanted = {"sentence": 0, "lam": 1.0, "kl": "paper", "sigma_P2": 1.0}
    rows = example.facts["optima"]["pb_neg"]
    matching = [row for row in rows if wanted.items() <= row.items()]
    return matching[0]["mu"]


@route(29)
def prior_mean_of_a_word_that_training_lacks(example):
    return example.output_vectors[6]


@route(30)
def mean_of_pb_l2_with_roles_swapped(example):
    return example.golden("i-PB-L2", lam=0.25, sigma_P2=1.0)["mu"]


@route(37)
def mean_of_pb_idf_l2_with_the_unit_prior(example):
    return example.golden("PB-IDF-L2/unit-prior", lam=0.25)["mu"]


@route(42)
def slope_of_the_log_variance(example):
    """By finite differences of the printed loss, one draw."""

    def loss(rho):
        drawn = example.mu + math.exp(rho / 2) * example.mu
        negatives = [[0, 5, 3]] * 5
        data = negative_sampling_loss(drawn, example.tokens, negatives, example.input_vectors)
        penalty = 5 * 4 / (2 * 0.25) * (-rho + math.exp(rho))
        return data / 5 + penalty

    return (loss(-0.4 + 1e-5) - loss(-0.4 - 1e-5)) / 2e-5


@route(43)
def distance_left_by_the_lump_and_by_the_decay(example):
    return [1 - 12 * 0.5, math.exp(-6.0)]


@route(47)
def mean_of_pb_l2_with_tokens_weighted_by_their_chance_to_be_kept(example):
    """At lambda 1, with word2vec's chance at t = 0.05."""
    counts = np.array([2, 2, 4, 1, 1, 1, 1])
    frequencies = counts[example.tokens] / 12
    chances = (np.sqrt(frequencies / 0.05) + 1) * 0.05 / frequencies
    kept = np.minimum(chances, 1.0)
    n_kept = kept.sum()
    mean_input = kept @ example.inputs / n_kept
    mean_output = kept @ example.outputs / n_kept
    return (mean_input + n_kept * mean_output) / (1 + n_kept)


def log_normaliser(outputs):
    """ln of the integral of the product of the densities, one dimension after the other."""
    n = len(outputs)
    total = 0.0
    for column in outputs.T:
        spread = ((column - column.mean()) ** 2).sum()
        total -= n / 2 * math.log(2 * math.pi)
        total += math.log(2 * math.pi / n) / 2 - spread / 2
    return total


@route(48)
def kl_as_printed_and_exact(example):
    of_variance = 4 * (0.5 - 1 - math.log(0.5))
    from_experts = squared_distance(example.mu, example.outputs) + of_variance
    sum_of_kl = from_experts.sum() / 2
    normaliser = log_normaliser(example.outputs)
    entropy = 4 / 2 * math.log(2 * math.pi * math.e * 0.5)
    printed = sum_of_kl + 5 * normaliser
    exact = sum_of_kl + normaliser + 4 * entropy
    return [printed, exact]


@route(50)
def pb_idf_l2_at_a_large_lambda_less_the_idf_average(example):
    return np.zeros(4)


@pytest.mark.parametrize("number", sorted(ROUTES))
def test_the_command_of_an_item_gives_what_another_route_gives(number, names, example):
    value = ROUTES[number](example)

    found = run(number, names)

    assert_allclose(np.asarray(found, float), value, rtol=1e-6, atol=2e-6)


def test_the_command_of_theorem_1_prints_a_table_of_bounds(names):
    printed = run(4, names)

    assert "Catoni, lambda = 200" in printed
    assert "0.206643" in printed


def test_minimising_the_bound_and_minimising_risk_plus_kl_give_one_mean(names):
    by_sum, by_bound = run(11, names)

    assert_allclose(by_sum, by_bound, atol=2e-3)
    assert max(map(abs, by_sum)) > 0.05


def test_every_item_has_its_value_checked_once():
    with_own_tests = [4, 8, 11]

    checked = [*STATED, *ROUTES, *with_own_tests]

    assert sorted(checked) == list(range(1, 51))
