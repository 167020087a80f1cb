"""Saved models: folders that a person can look into and from which nothing is executed.

model/
├── config.json          format version, kind, parameters, SHA-256 of the other files
├── model.safetensors    the arrays
├── vocabulary.tsv       word<TAB>count, for people (word vectors only)
└── words/               a part: the word vectors of an encoder, a folder of the same form
"""

from pacsent.storage.model_folder import (
    CONFIG,
    PACKAGED,
    check_place,
    is_model,
    is_model_name,
    is_url,
    place,
    read_config,
    static_modules,
)
from pacsent.storage.saving import Saveable, State, check, load, save
from pacsent.storage.sharing import push_to_hub
from pacsent.storage.tensor_files import (
    TENSORS,
    check_finite,
    checked_tensor,
    read_tensors,
    write_tensors,
)

__all__ = [
    "CONFIG",
    "PACKAGED",
    "TENSORS",
    "Saveable",
    "State",
    "check",
    "check_finite",
    "check_place",
    "checked_tensor",
    "is_model",
    "is_model_name",
    "is_url",
    "load",
    "place",
    "push_to_hub",
    "read_config",
    "read_tensors",
    "save",
    "static_modules",
    "write_tensors",
]
