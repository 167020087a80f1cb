"""Saved models: one protocol, one writer, one reader, one checksum.

A model is a folder that a person can look into; nothing in it is ever executed.

    model/
    ├── config.json          format version, kind, parameters, checksums of everything else
    ├── model.safetensors    the arrays
    ├── vocabulary.tsv       word<TAB>count, for people (word vectors only)
    └── words/               a part: the word vectors of an encoder, a folder of the same form

Files of other programs are in `pacsent.words.formats`.
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
from pacsent.storage.saving import Saveable, State, check, encoder_of, load, save
from pacsent.storage.sharing import push_to_hub
from pacsent.storage.tensor_files import (
    TENSORS,
    Tensors,
    check_finite,
    checked_tensor,
    read_tensors,
    write_tensors,
)

__all__ = [
    "CONFIG", "PACKAGED", "TENSORS", "Saveable", "State", "Tensors", "check", "check_finite",
    "check_place", "checked_tensor", "encoder_of", "is_model", "is_model_name", "is_url", "load",
    "place", "push_to_hub", "read_config", "read_tensors", "save", "static_modules",
    "write_tensors",
]  # fmt: skip
