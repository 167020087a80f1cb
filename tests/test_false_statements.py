"""Statements that were false in ordinary use: each of these tests fails before the fix.

A section for each of them; those that repeat draws are marked slow.
"""

# ---- 1. Predictions that are taken for labels ----


# ---- 2. A machine that saw the labels ----


# ---- 3. Texts that repeat ----


# ---- 4. The random number of abstention ----


# ---- 5. A model that is changed under its certificate ----


# ---- 6. Bounds that hold each by itself, or together ----


# ---- 7. Drift ----


# ---- 8. Answers of a person in check_labels ----


# ---- 9. Empty texts ----


# ---- 10. A language that the model does not know ----


# ---- 11. Texts dropped by audit before training ----


# ---- 12. A flood of one new text ----


# ---- 13. Edges and rounding ----


# ---- Security, lost files and crashes ----
