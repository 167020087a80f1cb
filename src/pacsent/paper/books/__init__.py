"""Passages of thirty public-domain books, and the demo that reads them with the English model.

`passages.tsv.xz`: author, book and text of 3,000 passages of 60 to 140 words, ten authors with
three books each. None of the books is in the corpus that the English model was trained on.
"""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__, {"passages": "passages_data", "Passage": "passages_data", "run": "books_demo"}
)
