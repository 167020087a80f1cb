"""Arrays of a frozen state, declared at its fields: what is saved and checked follows from them."""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import DTypeLike

from pacsent.storage.tensor_files import checked_tensor


class StoredArray(NamedTuple):
    """Annotation of a dataclass field that is saved as one tensor.

    Sizes in `shape` are numbers, names of sizes that several arrays share, or None for any length.

    >>> from dataclasses import dataclass
    >>> from typing import Annotated
    >>> @dataclass(frozen=True)
    ... class Line:
    ...     slopes: Annotated[np.ndarray, StoredArray("slopes", np.float64, ("n_columns",))]
    >>> to_tensors(Line(np.ones(2)))
    {'slopes': array([1., 1.])}
    >>> read_fields(Line, {"slopes": np.ones(3)}, {"n_columns": 2})
    Traceback (most recent call last):
    ...
    ValueError: slopes must have shape (2). Got (3,) instead
    """

    name: str
    dtype: DTypeLike
    shape: tuple[str | int | None, ...]
    low: float | None = None
    below: float | None = None


def stored_fields(state: type) -> dict[str, StoredArray]:
    """Field name -> annotation, for the fields of a dataclass that are saved as tensors."""
    fields = {}
    for name, annotation in get_type_hints(state, include_extras=True).items():
        for extra in getattr(annotation, "__metadata__", ()):
            if isinstance(extra, StoredArray):
                fields[name] = extra
    return fields


def to_tensors(state: Any) -> dict[str, np.ndarray]:
    """Tensor name -> array, for the fields of a state that are saved as tensors."""
    fields = stored_fields(type(state))
    return {stored.name: getattr(state, name) for name, stored in fields.items()}


def read_fields(
    state: type, tensors: Mapping[str, np.ndarray], sizes: Mapping[str, int | None]
) -> dict[str, np.ndarray]:
    """Field name -> array, from saved tensors; ValueError unless type, shape and values agree.

    Parameters
    ----------
    state : dataclass
    tensors : mapping of tensor names to arrays
    sizes : mapping of the names in `StoredArray.shape` to numbers; None for any number

    Returns
    -------
    dict of field names to arrays
    """
    arrays = {}
    for name, stored in stored_fields(state).items():
        shape = tuple(sizes[size] if isinstance(size, str) else size for size in stored.shape)
        arrays[name] = checked_tensor(
            tensors,
            stored.name,
            stored.dtype,
            shape,
            low=stored.low,
            below=stored.below,
        )
    return arrays
