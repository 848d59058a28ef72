"""Arrays against the signature: the sizes that the arrays' shapes give to symbols, the ABI errors. Tiny and region
playback share this. Shapes are in elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir.evaluate import FROM_ML_DTYPES, numpy_dtype
from ..ir.expr import Expr
from ..ir.model import Model, Tensor, is_exchanged
from ..ir.types import DType
from ..kit.diag import Diag, Refused, refuse_all
from ..kit.phrase import Listing, Phrase


def adopt(array: Any, dtype: DType) -> np.ndarray:
    """`array` as NumPy sees it. A .npz file keeps bf16 and fp8 as raw bytes; these are seen as the dtype of the
    signature again."""
    found = np.asarray(array)
    if found.dtype.kind == "V" and dtype.numpy in FROM_ML_DTYPES and found.dtype.itemsize == dtype.bytes:
        return found.view(numpy_dtype(dtype))
    return found


def in_memory(tensor: Tensor, array: np.ndarray) -> np.ndarray:
    """A view of a tensor's logical array with the axes as memory has them; of such an array, of the logical one."""
    return np.swapaxes(array, -1, -2) if is_exchanged(tensor) else array


def check_arrays(model: Model, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None) -> dict[str, int]:
    """The ABI of the inputs, by name; `symbols` are sizes that are known beforehand. The sizes, as `bind_symbols` gives
    them; raises Refused with every fault:
    E1701 a tensor is missing, E1702 of another dtype, E1703 of another shape, E1704 an array that the signature does
    not name, E1705 a symbol without a size, E1706 a size outside its range, E1714 a size for what is not a symbol."""
    faults = [
        Diag(
            "E1701",
            t.name,
            {
                "tensor": t.name,
                "expected": t.type,
                "given": ", ".join(arrays)
                or Phrase("nothing; commands read arrays by `--inputs FILE` and make them by `--random SEED`"),
            },
            t.span,
        )
        for t in model.inputs
        if t.name not in arrays
    ]
    known = {t.name for t in model.inputs}
    for name in arrays:
        if name not in known:
            faults.append(
                Diag(
                    "E1704",
                    name,
                    {"tensor": name, "known": ", ".join(t.name for t in model.inputs) or Phrase("no input")},
                )
            )
    for tensor in model.inputs:
        if tensor.name in arrays:
            found = adopt(arrays[tensor.name], tensor.type.dtype)
            if found.dtype != numpy_dtype(tensor.type.dtype):
                given: Any = _dtype_name(found.dtype)
                if found.dtype.newbyteorder("=") == numpy_dtype(tensor.type.dtype):
                    given = Phrase("{dtype} of the other byte order", dtype=given)
                facts = {"tensor": tensor.name, "expected": tensor.type.dtype, "given": given}
                faults.append(Diag("E1702", tensor.name, facts, tensor.span))
    sizes, more = _bind(model, arrays, symbols)
    if faults or more:
        raise Refused([*faults, *more])
    return sizes


def bind_symbols(
    model: Model, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None, is_partial: bool = False
) -> dict[str, int]:
    """The size of every symbol, from the shapes of the arrays and from `symbols`, which are known beforehand; where
    `is_partial`, of those that they settle. Raises Refused (E1703, E1705, E1706, E1714)."""
    sizes, faults = _bind(model, arrays, symbols, is_partial)
    refuse_all(faults)
    return sizes


def _dtype_name(dtype: np.dtype) -> str:
    from ..ir.types import DTYPES

    return next((d.name for d in DTYPES.values() if d.numpy == dtype.name), dtype.name)


def _bind(
    model: Model, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None, is_partial: bool = False
) -> tuple[dict[str, int], list[Diag]]:
    sizes: dict[str, int] = dict(symbols or {})
    giver: dict[str, str] = dict.fromkeys(sizes, Phrase("the caller"))
    given = {t.name: np.shape(arrays[t.name]) for t in model.inputs if t.name in arrays}
    dims = [
        (t.name, dim, size)
        for t in model.inputs
        if t.name in given and len(given[t.name]) == t.type.rank
        for dim, size in zip(t.type.shape, given[t.name])
        if dim.constant is None
    ]
    is_progress = True
    while is_progress:
        is_progress = False
        for name, dim, size in dims:
            solved = _solve(dim.substitute(sizes), size)
            if solved is not None and solved[0] not in sizes:
                sizes[solved[0]], giver[solved[0]] = solved[1], name
                is_progress = True
    faults = [
        _shape_fault(t, given[t.name], sizes, giver)
        for t in model.inputs
        if t.name in given and not _fits(t, given[t.name], sizes)
    ]
    strange = [s for s in symbols or () if s not in model.symbols()]
    faults += [Diag("E1714", s, {"symbol": s, "known": ", ".join(model.symbols()) or Phrase("none")}) for s in strange]
    for symbol in model.symbols():
        bounds = model.range_of(symbol)
        if symbol not in sizes:
            if not faults and not is_partial and len(given) == len(model.inputs):
                faults.append(Diag("E1705", symbol, {"symbol": symbol}))
        elif not bounds.low <= sizes[symbol] <= bounds.high:
            facts = {
                "symbol": symbol,
                "size": sizes[symbol],
                "low": bounds.low,
                "high": bounds.high,
                "tensor": giver[symbol],
            }
            faults.append(Diag("E1706", symbol, facts))
    return sizes, faults


def _solve(dim: Expr, size: int) -> tuple[str, int] | None:
    """The symbol and value that `dim = size` settles: dim is `c*symbol + d`, and c divides."""
    named = [(c, m) for c, m in dim.terms if m]
    if len(named) != 1 or len(named[0][1]) != 1 or not isinstance(named[0][1][0], str):
        return None
    scale, (symbol,) = named[0]
    value, rest = divmod(size - dim.offset, scale)
    return (symbol, value) if rest == 0 else None


def _fits(tensor: Tensor, shape: tuple[int, ...], sizes: Mapping[str, int]) -> bool:
    if len(shape) != tensor.type.rank:
        return False
    return all(_is_size(dim, size, sizes) for dim, size in zip(tensor.type.shape, shape))


def _is_size(dim: Expr, size: int, sizes: Mapping[str, int]) -> bool:
    if dim.constant is not None:
        return dim.constant == size
    if any(name not in sizes for name in dim.names()):
        return True
    try:
        return dim.evaluate(sizes) == size
    except ZeroDivisionError:
        return False


def _shape_fault(tensor: Tensor, shape: tuple[int, ...], sizes: Mapping[str, int], giver: Mapping[str, str]) -> Diag:
    names = dict.fromkeys(n for d in tensor.type.shape for n in d.names() if n in sizes)
    bound = Listing(
        Phrase("{symbol} = {size} from {giver}", symbol=n, size=sizes[n], giver=giver[n])
        for n in names
        if giver[n] != tensor.name
    ) or Phrase("no symbol is set by another tensor")
    return Diag(
        "E1703",
        tensor.name,
        {
            "tensor": tensor.name,
            "expected": tensor.type,
            "given": list(shape),
            "bound": bound,
            "help": _wanted(tensor, shape),
        },
        tensor.span,
    )


def _wanted(tensor: Tensor, shape: tuple[int, ...]) -> str:
    """What is to change in an array: its rank, sizes that are numbers, or else what symbols are."""
    if len(shape) != tensor.type.rank:
        return Phrase("the array is of rank {given}, not {rank}", given=len(shape), rank=tensor.type.rank)
    return Listing(
        Phrase("axis {axis} is {given}, not {size}", axis=axis, given=given, size=dim)
        for axis, (dim, given) in enumerate(zip(tensor.type.shape, shape))
        if dim.constant not in (None, given)
    ) or Phrase("a symbol has one size in all tensors of a run")
