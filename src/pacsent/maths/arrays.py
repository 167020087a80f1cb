"""What formulas take where one number and an array of them both make sense."""

import numpy as np

Numbers = float | np.ndarray  # one, or one for each row
