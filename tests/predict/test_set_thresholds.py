"""Thresholds of prediction sets: of all texts together, or of each class."""

import numpy as np

from pacsent.predict import abstaining
from pacsent.predict.calibration import Calibration


def test_each_class_has_the_threshold_of_its_own_texts_at_its_part_of_delta(rng):
    probabilities = rng.dirichlet([2, 2], 400)
    labels = np.arange(400) % 2
    calibration = Calibration(np.log(probabilities), labels)

    thresholds = abstaining.prediction_set_thresholds(calibration, 0.2, 0.1, per_class=True)

    for class_ in range(2):
        of_class = calibration.select(np.flatnonzero(labels == class_))
        alone = abstaining.prediction_set_thresholds(of_class, 0.2, 0.05, per_class=False)
        assert thresholds[class_] == alone[0]
