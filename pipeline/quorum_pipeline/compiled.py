"""Compilation of loops over bytes with numba, cached for later processes if possible.

Owns the types and options. A function is compiled once for its annotated types when its module is imported, so such
modules are imported only where they are needed; others are compiled at their first call. If the package directory is
read-only and there is no home, each process compiles for itself.
"""

import zlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar, cast, get_type_hints

import numba
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class Table(NamedTuple):
    """A hash table. `slots`: row numbers by hash. `rows`: one row of numbers per entry."""

    slots: npt.NDArray[np.int32]
    rows: Any


_NUMBERS = numba.types.Array(numba.int64, 1, "C")
_BYTES = numba.types.Array(numba.uint8, 1, "C")
_ROWS = numba.types.Array(numba.int64, 2, "C")
_TABLE = cast("Any", numba.types).NamedTuple((numba.types.Array(numba.int32, 1, "C"), _ROWS), Table)
_TYPES = {int: numba.int64, bool: numba.boolean, Bytes: _BYTES, Numbers: _NUMBERS, Table: _TABLE}
_PACKAGES = (
    "quorum_pipeline", "quorum_pipeline.compaction", "quorum_pipeline.rows", "quorum_node.records", "quorum_node.records.metadata", "quorum_node.image"
)  # fmt: skip
_SOURCES = [
    each for name in _PACKAGES for each in files(name).iterdir() if each.name.endswith(".py")
]
_VERSION = f"{zlib.crc32(b''.join(sorted(each.read_bytes() for each in _SOURCES))):08x}"
"""Version of the cache. Numba checks only the file of a function, not those of the functions and constants that it
uses.
"""
_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a function that Python calls. It releases the GIL and propagates exceptions; array indexes are not checked."""
    return _made(function, no_cpython_wrapper=False)


def inner(function: _Function) -> _Function:
    """Compile a function that only compiled functions call."""
    return _made(function, no_cpython_wrapper=True)


def compiled_when_called(function: _Function) -> _Function:
    """Compile a function at its first call, for the types of that call; arrays may be of any type."""
    return _cached(function, ())


def _made(function: _Function, **options: Any) -> _Function:
    hints = get_type_hints(function)
    hints.pop("return")
    types = tuple(_TYPES[each] for each in hints.values())
    options |= {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    return _cached(function, (types,), **options)


def _cached(function: _Function, types: tuple[Any, ...], **options: Any) -> _Function:
    function.__qualname__ += f".{_VERSION}"  # part of the cache file's name
    njit: Callable[..., Callable[[_Function], _Function]] = numba.njit
    try:
        return njit(*types, cache=True, **options)(function)
    except RuntimeError:  # no cache directory is available
        return njit(*types, **options)(function)
