"""Plain implementations of the formulas, which the tests compare the package with."""
