"""A server for embeddings, classes, search and certificates, and its page (extra `serve`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "annotators": ["agreement"],
        "application": ["create_app"],
        "labelling_session": ["Labelling"],
        "served": ["Served", "Sources", "open_all", "open_served"],
        "settings": ["Settings", "read_keys"],
        "supervisor": ["Supervisor"],
        "text_map": ["FOLDER", "TextMap", "make_map", "write_atlas", "write_html"],
    },
)
