"""Maps of texts: points on a plane, as one HTML page or as a table for Embedding Atlas."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "FOLDER": "text_map",
        "TextMap": "text_map",
        "make_map": "text_map",
        "write_html": "text_map",
        "write_atlas": "text_map",
    },
)
