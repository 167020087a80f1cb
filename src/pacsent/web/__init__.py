"""A server for embeddings, classes, search and certificates, and its page (extra `serve`)."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "Settings": "settings",
        "read_keys": "settings",
        "Served": "served",
        "Sources": "served",
        "open_served": "served",
        "open_all": "served",
        "create_app": "application",
        "Supervisor": "supervisor",
        "Labelling": "labelling_session",
        "agreement": "annotators",
        "FOLDER": "text_map",
        "TextMap": "text_map",
        "make_map": "text_map",
        "write_html": "text_map",
        "write_atlas": "text_map",
    },
)
