"""The ABI of a program's inputs and outputs: what a caller's array must be, and how it lies in device memory.

Names, dtypes and shapes are checked by `play.arrays`, which playback shares; layout and alignment are the device's
affair and are seen to here. A tensor of layout col_major lies in memory with its last two axes exchanged; the caller's
array is the logical one either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir.model import Model, Tensor, is_exchanged
from ..play.arrays import adopt, bind_symbols, check_arrays, numpy_dtype, sizes_of


def admit(
    model: Model, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None
) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The sizes of the symbols, and each input as it shall lie in device memory (contiguous, native byte order), copied
    only where it does not already; `symbols` are sizes that no array settles. Raises Refused with every fault (E1701 to
    E1707, E1714)."""
    arrays = {name: native(array) for name, array in arrays.items()}
    check_arrays(model, arrays, symbols)
    return bind_symbols(model, arrays, symbols), {t.name: laid(t, arrays[t.name]) for t in model.inputs}


def laid(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """An array that was checked, as it shall lie in device memory."""
    return in_memory(tensor, adopt(native(array), tensor.type.dtype))


def in_memory(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """The logical array as a contiguous one in the tensor's layout."""
    laid = np.swapaxes(array, -1, -2) if is_exchanged(tensor) else array
    return np.ascontiguousarray(laid).reshape(laid.shape)


def room_for(tensor: Tensor, sizes: Mapping[str, int]) -> np.ndarray:
    """An uninitialised contiguous array for the tensor's bytes as they lie in memory; `logical` turns it into the
    caller's."""
    shape = sizes_of(tensor.type.shape, sizes)
    return np.empty(
        shape[:-2] + (shape[-1], shape[-2]) if is_exchanged(tensor) else shape, numpy_dtype(tensor.type.dtype)
    )


def logical(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """The caller's view of what lies in memory; no copy."""
    return np.swapaxes(array, -1, -2) if is_exchanged(tensor) else array


def native(array: Any) -> np.ndarray:
    """As NumPy sees it, in this machine's byte order."""
    found = np.asarray(array)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
