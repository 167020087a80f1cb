"""Labels are parsed once, into classes or sets of labels, and selected together with groups."""

import numpy as np
import pandas as pd
import pytest

from pacsent.certify import certify_predictions
from pacsent.certify.labels import ClassLabels, Labels, LabelSets, label_type

COLUMN = ["b", "a", "b", "c", "a", "c"]
SETS = [{"a", "b"}, {"a"}, set(), {"b"}, {"c"}, {"c"}]


@pytest.mark.parametrize(
    "form",
    [COLUMN, np.array(COLUMN), pd.Series(COLUMN), np.array(COLUMN)[:, None], tuple(COLUMN)],
)
def test_every_form_of_a_column_has_the_same_classes_and_codes(form):
    labels = Labels.parse(form, 6)

    assert isinstance(labels, ClassLabels)
    assert labels.target_type == "classes"
    assert labels.classes.tolist() == ["a", "b", "c"]
    assert labels.encoded.tolist() == [1, 0, 1, 2, 0, 2]
    assert labels.answers == COLUMN


def test_sets_become_a_matrix_of_the_labels_in_order():
    labels = Labels.parse(SETS, 6)

    assert isinstance(labels, LabelSets)
    assert labels.target_type == "sets"
    assert labels.classes.tolist() == ["a", "b", "c"]
    assert labels.encoded[0].tolist() == [True, True, False]


def test_a_matrix_keeps_its_names_and_its_form():
    matrix = Labels.parse(SETS, 6).encoded
    frame = pd.DataFrame(matrix.astype(int), columns=["z", "y", "x"])
    labels = Labels.parse(frame, 6)

    assert labels.target_type == "indicator"
    assert labels.classes.tolist() == ["z", "y", "x"]
    assert (labels.encoded == matrix).all()


def test_labels_and_groups_are_selected_together():
    labels = Labels.parse(COLUMN, 6).with_groups(["x", "y", "x", "z", "z", "y"])
    some = labels.select(np.array([5, 0]))

    assert some.answers == ["c", "b"]
    assert some.groups is not None
    assert some.groups.tolist() == [1, 0]
    assert len(some) == 2 and len(labels) == 6


def test_labels_cannot_be_changed():
    labels = Labels.parse(COLUMN, 6)
    with pytest.raises(AttributeError):
        labels.classes = np.array(["d"])


def test_other_labels_follow_the_classes_of_a_classifier():
    labels = ClassLabels.of_classes(np.array(["b", "a"]), ["a", "new", "b"], 3)

    assert labels.classes.tolist() == ["b", "a", "new"]
    assert labels.encoded.tolist() == [1, 2, 0]


def test_a_prediction_is_correct_if_the_class_or_the_whole_set_is():
    classes = Labels.parse(COLUMN, 6)
    assert classes.is_correct(np.array(["b", "a", "a", "c", "b", "c"])).tolist() == [
        *(True, True, False),
        *(True, False, True),
    ]

    sets = Labels.parse(SETS, 6)
    predictions = sets.encoded.copy()
    predictions[2, 1] = True
    assert sets.is_correct(predictions).tolist() == [True, True, False, True, True, True]


def test_rows_with_a_chosen_class_are_found_in_either_form():
    is_chosen = np.array([True, False, True])

    classes = Labels.parse(COLUMN, 6)
    assert classes.have_any(classes.encoded, is_chosen).tolist() == [
        label != "b" for label in COLUMN
    ]
    sets = Labels.parse(SETS, 6)
    assert sets.have_any(sets.encoded, is_chosen).tolist() == [bool(s - {"b"}) for s in SETS]


@pytest.mark.parametrize("form", [COLUMN, SETS])
def test_answers_are_parsed_back(form):
    labels = Labels.parse(form, 6)
    again = type(labels).of_answers(labels.classes, labels.answers, None)
    assert (again.encoded == labels.encoded).all()


def test_the_type_follows_from_what_a_classifier_predicts():
    class Classifier:
        target_type_ = "indicator"

    assert label_type(Classifier()) is LabelSets
    assert label_type(object()) is ClassLabels


def test_an_empty_text_does_not_undo_that_all_statements_hold_together():
    rng = np.random.default_rng(0)
    true, predicted, judge = rng.integers(2, size=(3, 200)).tolist()
    texts = [f"text {n} of {n * 7}" for n in range(200)]
    others = (predicted * 2, judge * 2)
    options = {"unlabelled": others, "simultaneous": True, "random_state": 0}

    alone = certify_predictions(true, predicted, texts=texts, judge=judge, **options)
    with_empty = certify_predictions(
        [*true, 0], [*predicted, 0], texts=[*texts, " "], judge=[*judge, 0], **options
    )

    assert with_empty.corrections == alone.corrections != {}
    assert with_empty.error_upper == alone.error_upper
