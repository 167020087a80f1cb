"""HTTP server, labelling page, exported page (extra `serve`) and text maps (extra `report`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "application": ["create_app"],
        "html_export": ["export_html"],
        "label_answers": ["agreement"],
        "labelling": ["Labelling"],
        "model_sources": ["ModelSource", "open_models"],
        "served_model": ["ServedModel"],
        "server": ["serve"],
        "settings": ["ServerSettings", "read_keys"],
        "text_map": ["make_map"],
    },
)
