"""The ABI of a program's inputs and outputs: what a caller's array must be, and its order in device memory.

Names, dtypes and shapes are checked by `play.arrays`, which playback shares; layout and alignment matter on a device
only and are checked here. Memory has the last two axes of a col_major tensor exchanged; the caller's array is the
logical one either way: what is col_major already (a transposed array, `order="F"`) is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir.evaluate import sizes_of
from ..ir.model import Model, Tensor, memory_type
from ..kit.diag import Diag
from ..play.arrays import adopt, check_arrays, in_memory, numpy_dtype

ALIGNMENT = 16  # bytes; of every tensor, unless its attribute asks for more


def admit(
    model: Model, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None
) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The sizes of the symbols, and each input as it shall be in device memory (contiguous, native byte order), copied
    only where it does not already; `symbols` are sizes that no array settles. Raises Refused with every fault (E1701 to
    E1707, E1714)."""
    arrays = {name: native(array) for name, array in arrays.items()}
    return check_arrays(model, arrays, symbols), {t.name: laid(t, arrays[t.name]) for t in model.inputs}


def laid(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """An array that was checked, as it shall be in device memory."""
    return stored(tensor, adopt(native(array), tensor.type.dtype))


def stored(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """The logical array as a contiguous one in the order of memory; a copy only where it is another."""
    laid = in_memory(tensor, array)
    return np.ascontiguousarray(laid).reshape(laid.shape)


def room_for(tensor: Tensor, sizes: Mapping[str, int]) -> np.ndarray:
    """An uninitialised contiguous array for the tensor's bytes in the order of memory; `in_memory` gives the caller's
    view of it."""
    return np.empty(sizes_of(memory_type(tensor).shape, sizes), numpy_dtype(tensor.type.dtype))


def alignment_of(tensor: Tensor) -> int:
    """Bytes of which the tensor's address is a multiple: what the signature states, and at least ALIGNMENT."""
    return max(tensor.attr("alignment") or 0, ALIGNMENT)


def address_faults(tensor: Tensor, address: int) -> list[Diag]:
    """E1733 for an address that is not a multiple of the tensor's alignment."""
    wanted = alignment_of(tensor)
    if address % wanted == 0:
        return []
    facts = {"tensor": tensor.name, "address": f"{address:#x}", "given": address & -address, "wanted": wanted}
    return [Diag("E1733", tensor.name, facts, tensor.span)]


def native(array: Any) -> np.ndarray:
    """As NumPy sees it, in this machine's byte order."""
    found = np.asarray(array)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
