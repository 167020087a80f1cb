"""Passages of thirty public-domain books, and the demo that reads them with the English model.

`passages.tsv.xz`: author, book and text of 3,000 passages of 60 to 140 words, ten authors with
three books each. None of the books is in the corpus that the English model was trained on.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "books_demo": ["run"],
        "passages_data": ["Passage", "passages"],
    },
)
