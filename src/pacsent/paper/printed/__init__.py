"""The paper as printed, beside its corrected form: to be read with the paper in hand.

Plain NumPy, one formula per function, no compiled code. What pacsent uses elsewhere is the
corrected form; here is what Nozawa and Sato (2019) print, what their experiments did, and by how
much the two differ.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["sgd"],
    submod_attrs={
        "bound_over_posteriors": [
            "minimise_at_fixed_lambda",
            "minimise_kl_inverse",
            "minimise_theorem_1",
            "problem_of",
        ],
        "bound_simulation": ["BoundSimulation", "simulate_bound"],
        "worked_example": ["Example", "example"],
        "kl": [
            "entropy",
            "kl_exact",
            "kl_printed",
            "log_normaliser",
            "penalty_exact",
            "penalty_printed",
            "product_prior",
            "sum_prior",
        ],
        "labelled_words": [
            "draw_labelled_words",
            "generalisation_example",
            "hypothesis",
            "labelled_words_of",
            "zero_one_risk",
        ],
        "negative_sampling": [
            "PrintedPBNegVectorizer",
            "expected_loss",
            "negative_sampling_loss",
            "sampled_loss",
        ],
        "sgd": ["diverges", "learning_rates"],
        "closed_forms": [
            "idf_l2_posterior",
            "l2_posterior",
            "rescaled_loss_lambda",
            "squared_loss",
            "sum_prior_posterior",
        ],
        "stability": ["family_spreads"],
        "vectorizers": [
            "SGDPBNegVectorizer",
            "WeightedL2Vectorizer",
            "from_scratch",
            "make_printed",
        ],
        "word_training": [
            "decay",
            "lump",
            "pv_dbow_loss",
            "train_pv_dbow",
            "train_words",
            "word_variances",
        ],
    },
)
