"""Saved models: folders that a person can look into and from which nothing is executed.

model/
├── config.json          format version, kind, parameters, SHA-256 of the other files
├── model.safetensors    the arrays
├── derived.safetensors  what follows from them and takes long to compute (large classifiers only)
├── vocabulary.tsv       word<TAB>count, for people (word vectors only)
└── words/               a part: the word vectors of an encoder, a folder of the same form
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "checksums": ["row_bytes"],
        "model_folder": [
            *("CONFIG", "PACKAGED", "PUBLIC_PARAMETERS", "check_place", "is_model"),
            *("is_model_name", "is_url", "place", "public_url", "read_config", "static_modules"),
        ],
        "saving": ["Saveable", "State", "UnopenedPart", "check", "load", "save"],
        "tensor_files": [
            *("TENSORS", "check_finite", "checked_tensor", "read_tensors", "write_tensors"),
        ],
    },
)

__all__ = ["check", "load", "save"]  # the other names are for the packages of pacsent
