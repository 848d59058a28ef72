"""What the rows of the front ends' table take whose operands or attributes depend on one another's shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyir.front.builder import Literal, Ref
from tinyir.front.ops import Attr
from tinyir.ir.types import DTYPES

Drawn = tuple[list[Any], dict[str, Any]]  # operands, and attributes that go with their shapes


def drawn_attr(m: Any, attr: Attr, operands: Sequence[Any]) -> Any:
    """An attribute by its kind, for the rank of the first operand."""
    rank = operands[0].rank if operands and isinstance(operands[0], Ref) else 3
    low = int(attr.low) if attr.low is not None else -1
    if attr.name in ("axis", "axes"):
        axes = m.draw.sample(range(rank), m.draw.randint(0, rank))
        axes = [a - rank if m.draw.random() < 0.3 else a for a in axes]
        return axes if attr.kind == "ints" else m.draw.randrange(-rank, rank) if rank else 0
    one: dict[str, Callable[[], Any]] = {
        "flag": lambda: m.draw.random() < 0.5,
        "word": lambda: m.draw.choice(attr.words),
        "dtype": lambda: m.dtype().name,
        "float": lambda: m.draw.choice((0.5, 1.0, 2.0, 0.25)),
        "number": lambda: m.draw.choice((0, 1, 2)),
        "int": lambda: m.draw.randint(low, low + 3),
        "dim": lambda: m.draw.randint(max(low, 0), 4),
    }
    if attr.kind in one:
        return one[attr.kind]()
    if attr.kind in ("ints", "dims"):
        return [m.draw.randint(max(low, 0), max(low, 0) + 2) for _ in range(rank)]
    return None


def _known(ref: Ref) -> list[int] | None:
    sizes = [d.constant for d in ref.shape]
    return None if None in sizes else sizes


def _matrix(m: Any) -> Drawn:
    x = m.some("fiu", 2, 4)
    columns = m.size()
    batch = [d if m.draw.random() < 0.7 else 1 for d in x.shape[:-2]][m.draw.randint(0, x.rank - 2) :]
    return [x, m.like([*batch, x.shape[-1], columns], x.dtype)], {}


def _gemm(m: Any) -> Drawn:
    x = m.some("fiu", 2, 2)
    turns = m.draw.random() < 0.5, m.draw.random() < 0.5
    rows, inner = reversed(x.shape) if turns[0] else x.shape
    columns = m.size()
    operands = [x, m.like([columns, inner] if turns[1] else [inner, columns], x.dtype)]
    if m.draw.random() < 0.5:
        operands.append(m.like(m.draw.choice([[rows, columns], [columns], [1, columns], [rows, 1], []]), x.dtype))
    return operands, {"transA": turns[0], "transB": turns[1], "alpha": m.draw.choice((None, 0.5, 2.0))}


def _where(m: Any) -> Drawn:
    x = m.some()
    return [m.like([d if m.draw.random() < 0.8 else 1 for d in x.shape], DTYPES["bool"]), x, m.fitting(x)], {}


def _reshape(m: Any) -> Drawn:
    x = m.some()
    shape = list(x.shape)
    for _ in range(m.draw.randint(1, 3)):
        at = m.draw.randint(0, len(shape))
        kind = m.draw.randrange(3)
        if kind == 0 and len(shape) < 6:
            shape.insert(at, 1)
        elif kind == 1 and at + 1 < len(shape):
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif kind == 2 and at < len(shape) and len(shape) < 6 and (size := getattr(shape[at], "constant", shape[at])):
            by = m.draw.choice([d for d in range(1, size + 1) if size % d == 0])
            shape[at : at + 1] = [by, size // by]
    return [x], {"shape": shape}


def _expand(m: Any) -> Drawn:
    x = m.some()
    shape = [m.size() if d.constant == 1 and m.draw.random() < 0.7 else d for d in x.shape]
    return [x], {"shape": [m.size()] * (len(shape) < 5 and m.draw.random() < 0.4) + shape}


def _slice(m: Any) -> Drawn:
    x = m.some(low=1)
    axes = m.draw.sample(range(x.rank), m.draw.randint(1, x.rank))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis].constant or 3
        low, high = sorted(m.draw.choices(range(size + 1), k=2))
        is_back = high > low and m.draw.random() < 0.3
        starts.append(high - 1 if is_back else low)
        ends.append((low - 1 if low else -size - 1) if is_back else high)
        steps.append(-m.draw.randint(1, 2) if is_back else m.draw.randint(1, 3))
    return [x], {"starts": starts, "ends": ends, "steps": steps, "axes": axes}


def _pad(m: Any) -> Drawn:
    x = m.some(low=1)
    mode = m.draw.choice(("constant", "constant", "reflect", "edge", "wrap"))
    low = 0 if mode != "constant" or m.draw.random() < 0.7 else -1
    pads = [m.draw.choice((0, 0, 1, 2, low)) for _ in range(2 * x.rank)]
    return [x], {
        "pads": pads,
        "mode": mode,
        "value": m.draw.choice((0, 1)) if mode == "constant" else None,
        "axes": None,
    }


def _concat(m: Any) -> Drawn:
    x = m.some(low=1)
    axis = m.draw.randrange(x.rank)
    others = [
        m.like([m.size() if a == axis and m.draw.random() < 0.5 else d for a, d in enumerate(x.shape)], x.dtype)
        for _ in range(m.draw.randint(0, 2))
    ]
    return [x, *others], {"axis": axis - x.rank * (m.draw.random() < 0.3)}


def _split(m: Any) -> Drawn:
    x = m.some(low=1)
    axis = m.draw.randrange(x.rank)
    size = x.shape[axis].constant
    if not size:
        return [x], {"axis": axis, "parts": 1}
    cut = m.draw.randint(0, size)
    by = m.draw.choice([d for d in range(1, size + 1) if size % d == 0])
    return [x], {"axis": axis, **m.draw.choice(({"sizes": [cut, size - cut]}, {"parts": by}))}


def _norm(m: Any, axis: int, count: int) -> Drawn:
    """The operand and up to two of the shape from an axis on."""
    x = m.some("f", 2, 5)
    given = [m.like(x.shape[axis:], x.dtype) for _ in range(m.draw.randint(0, count))]
    return [x, *given], {"axis": axis}


def _channels(m: Any, count: int | None, rank: int = 3) -> Drawn:
    """The operand and this number, or up to two, of its channels."""
    x = m.some("f", rank, 5)
    given = m.draw.randint(0, 2) if count is None else count
    return [x, *(m.like([x.shape[1]], x.dtype) for _ in range(given))], {}


def _group_norm(m: Any) -> Drawn:
    operands, _ = _channels(m, None)
    channels = operands[0].shape[1].constant or 1
    return operands, {"groups": m.draw.choice([d for d in range(1, channels + 1) if channels % d == 0])}


def _batch_norm(m: Any) -> Drawn:
    operands, _ = _channels(m, 4, 2)
    return operands, {"axis": 1}


def _attention(m: Any) -> Drawn:
    batch = [m.size() for _ in range(m.draw.randint(1, 2))]
    rows, columns, depth, width = m.size(), m.size(), m.draw.choice((2, 4, 8)), m.draw.choice((1, 4, 8))
    dtype = m.dtype("f")
    shapes = [[*batch, rows, depth], [*batch, columns, depth], [*batch, columns, width]]
    operands = [m.like(shape, dtype) for shape in shapes]
    if m.draw.random() < 0.5:
        operands.append(m.like([rows, columns], m.draw.choice((dtype, DTYPES["bool"]))))
    return operands, {"acc_dtype": None}


def _einsum(m: Any) -> Drawn:
    letters = {c: m.size() for c in "abcd"}
    terms = ["".join(m.draw.sample("abcd", m.draw.randint(1, 3))) for _ in range(m.draw.randint(1, 3))]
    used = sorted(set("".join(terms)))
    out = "".join(m.draw.sample(used, m.draw.randint(0, len(used))))
    dtype = m.dtype("fiu")
    equation = ",".join(terms) + f"->{out}"
    return [m.like([letters[c] for c in term], dtype) for term in terms], {"equation": equation, "acc_dtype": None}


def _conv(m: Any) -> Drawn:
    """Windows of one or two axes, in either layout."""
    axes, groups, dtype = m.draw.randint(1, 2), m.draw.choice((1, 1, 1, 2)), m.dtype("f")
    channels, results = groups * m.draw.randint(1, 3), groups * m.draw.randint(1, 3)
    image = [m.draw.choice((3, 4, 5, 7)) for _ in range(axes)]
    kernel = [m.draw.choice((1, 2, 3)) for _ in range(axes)]
    layout = m.draw.choice(("NCHW", "NHWC"))
    shape = [m.size(), channels, *image] if layout == "NCHW" else [m.size(), *image, channels]
    factor = [results, channels // groups, *kernel] if layout == "NCHW" else [*kernel, channels // groups, results]
    operands = [m.like(shape, dtype), m.like(factor, dtype)]
    if m.draw.random() < 0.5:
        operands.append(m.like([results], dtype))
    return operands, {"groups": groups, "layout": layout, **_window(m, axes)}


def _window(m: Any, axes: int) -> dict[str, Any]:
    return {
        "stride": m.draw.choice((None, [m.draw.randint(1, 2) for _ in range(axes)])),
        "dilation": m.draw.choice((None, [m.draw.randint(1, 2) for _ in range(axes)])),
        "pad": m.draw.choice((None, [1], [m.draw.randint(0, 2) for _ in range(2 * axes)])),
    }


def _conv_transpose(m: Any) -> Drawn:
    axes, groups, dtype = m.draw.randint(1, 2), m.draw.choice((1, 1, 2)), m.dtype("f")
    channels, results = groups * m.draw.randint(1, 2), m.draw.randint(1, 2)
    image, kernel = ([m.draw.choice((2, 3, 4)) for _ in range(axes)], [m.draw.choice((1, 2, 3)) for _ in range(axes)])
    operands = [m.like([m.size(), channels, *image], dtype), m.like([channels, results, *kernel], dtype)]
    stated = {"groups": groups, "layout": "NCHW", "output_shape": None, "output_padding": None, "auto_pad": None}
    return operands, {**stated, **_window(m, axes)}


def _pool(m: Any) -> Drawn:
    axes = m.draw.randint(1, 2)
    x = m.like([m.size(), m.draw.randint(1, 3), *(m.draw.choice((3, 4, 5, 7)) for _ in range(axes))], m.dtype("f"))
    return [x], {"kernel": [m.draw.randint(1, 3) for _ in range(axes)], "layout": "NCHW", **_window(m, axes)}


def _unfold(m: Any) -> Drawn:
    x = m.like([m.size(), m.draw.randint(1, 3), m.draw.randint(3, 5), m.draw.randint(3, 5)], m.dtype())
    return [x], {"kernel": [m.draw.randint(1, 3) for _ in range(2)], "stride": None, "dilation": None}


def _fold(m: Any) -> Drawn:
    size, kernel = m.draw.randint(2, 4), m.draw.randint(1, 2)
    places = size - kernel + 1
    x = m.like([m.draw.randint(1, 2), m.draw.randint(1, 2), kernel, kernel, places, places], m.dtype("f"))
    return [x], {"size": [size, size], "stride": None, "dilation": None}


def _places(m: Any, shape: Sequence[Any], size: Any) -> Ref:
    return m.input(shape, DTYPES[m.draw.choice(("i32", "i64"))], size.constant or 3)


def _gather(m: Any) -> Drawn:
    x = m.some(low=1)
    axis = m.draw.randrange(x.rank)
    return [x, _places(m, m.shape(0, 2), x.shape[axis])], {"axis": axis}


def _embedding(m: Any) -> Drawn:
    x = m.some(low=2, high=2)
    return [x, _places(m, m.shape(0, 2), x.shape[0])], {}


def _gather_elements(m: Any) -> Drawn:
    x = m.some(low=1)
    axis = m.draw.randrange(x.rank)
    shape = [m.size() if a == axis else d for a, d in enumerate(x.shape)]
    return [x, _places(m, shape, x.shape[axis])], {"axis": axis}


def _scatter(m: Any) -> Drawn:
    (x, at), stated = _gather_elements(m)
    return [x, at, m.like(at.shape, x.dtype)], stated


def _gather_nd(m: Any) -> Drawn:
    x = m.some(low=1)
    depth = m.draw.randint(1, x.rank)
    return [x, _places(m, [m.draw.randint(1, 3), depth], x.shape[0])], {"batch": 0}


def _scatter_nd(m: Any) -> Drawn:
    (x, at), _ = _gather_nd(m)
    return [x, at, m.like([at.shape[0], *x.shape[at.shape[1].constant :]], x.dtype)], {}


def _one_hot(m: Any) -> Drawn:
    return [m.some("iu", 0, 3)], {"depth": m.draw.randint(1, 5)}


def _top_k(m: Any) -> Drawn:
    x = m.some("fiu", 1)
    axis = m.draw.randrange(x.rank)
    return [x], {"axis": axis, "k": m.draw.randint(0, x.shape[axis].constant or 1)}


def _resize(m: Any) -> Drawn:
    x = m.some("f", 1, 4)
    known = _known(x)
    axes = m.draw.sample(range(x.rank), m.draw.randint(1, min(2, x.rank)))
    coordinates = m.draw.choice(("half_pixel", "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"))
    stated = {"axes": axes, "roi": None, "coordinates": coordinates, "extrapolation": None}
    if known is None or m.draw.random() < 0.5:
        return [x], {**stated, "scales": [m.draw.choice((0.5, 2.0, 1.5)) for _ in axes], "sizes": None}
    return [x], {**stated, "sizes": [m.draw.randint(1, 6) for _ in axes], "scales": None}


def _random(m: Any) -> Drawn:
    return [], {
        "shape": [m.draw.randint(1, 5) for _ in range(m.draw.randint(0, 3))],
        "seed": m.draw.randint(0, 1 << 40),
        "dtype": m.dtype("f").name,
    }


def _clip(m: Any) -> Drawn:
    return [m.some("fiu")], {"min": m.draw.choice((None, 0, 1)), "max": m.draw.choice((None, 1, 2))}


def _prelu(m: Any) -> Drawn:
    x = m.some("f")
    return [x, m.fitting(x)], {}


def _literal(m: Any) -> Drawn:
    """An operand and a number."""
    x = m.some("fiu")
    sides = [x, Literal(m.draw.choice((0, 1, 2, 3)))]
    return sides if m.draw.random() < 0.8 else sides[::-1], {}


OPERANDS: dict[str, Callable[[Any], Drawn]] = {
    "GEMM": _gemm,
    "MatMul": _matrix,
    "Where": _where,
    "Elementwise where": _where,
    "Elementwise clip": _clip,
    "Clip": _clip,
    "Elementwise prelu": _prelu,
    "Elementwise floordiv": _literal,
    "Elementwise mod": _literal,
    "Elementwise rem": _literal,
    "Elementwise shift_left": _literal,
    "Elementwise shift_right": _literal,
    "Reshape": _reshape,
    "Expand": _expand,
    "Slice": _slice,
    "Pad": _pad,
    "Concat": _concat,
    "Split": _split,
    "LayerNorm": lambda m: _norm(m, -1, 2),
    "RMSNorm": lambda m: _norm(m, -1, 1),
    "GroupNorm": _group_norm,
    "InstanceNorm": lambda m: _channels(m, None),
    "BatchNorm": _batch_norm,
    "Attention": _attention,
    "Decode": lambda m: ([m.input(m.shape(), DTYPES["u8"], 16)], {}),
    "Encode": lambda m: ([m.some("f")], {}),
    "Einsum": _einsum,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Pool": _pool,
    "Unfold": _unfold,
    "Fold": _fold,
    "Gather": _gather,
    "Embedding": _embedding,
    "GatherElements": _gather_elements,
    "Scatter": _scatter,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "Resize": _resize,
    "Random": _random,
    "RandomNormal": _random,
}


def _perm(m: Any, operands: Sequence[Ref]) -> list[int] | None:
    rank = operands[0].rank
    return m.draw.sample(range(rank), rank)


def _axis_of_size_1(m: Any, operands: Sequence[Ref]) -> list[int]:
    return [a for a, d in enumerate(operands[0].shape) if d.constant == 1 and m.draw.random() < 0.7]


def _new_axes(m: Any, operands: Sequence[Ref]) -> list[int]:
    rank = operands[0].rank
    count = m.draw.randint(1, 2)
    return m.draw.sample(range(rank + count), count)


def _repeats(m: Any, operands: Sequence[Ref]) -> list[int]:
    return [m.draw.choice((1, 1, 2, 3)) for _ in operands[0].shape]


def _sum_in(m: Any, operands: Sequence[Ref]) -> str | None:
    """The dtype of a sum: that of the operand, or a wider one."""
    dtype = operands[0].dtype
    wider = [d.name for d in DTYPES.values() if d.kind == dtype.kind and d.bits >= dtype.bits]
    return m.draw.choice((None, *wider))


ATTRIBUTES: dict[str, dict[str, Callable[[Any, Sequence[Ref]], Any]]] = {
    "Transpose": {"perm": _perm},
    "Squeeze": {"axes": _axis_of_size_1},
    "Unsqueeze": {"axes": _new_axes},
    "Tile": {"repeats": _repeats},
    "Roll": {
        "axes": lambda m, operands: list(range(operands[0].rank)),
        "shifts": lambda m, operands: [m.draw.randint(-2, 2) for _ in operands[0].shape],
    },
    **{name: {"acc_dtype": _sum_in} for name in ("Reduce", "CumSum", "CumProd", "CumMax", "CumMin")},
    **{name: {"acc_dtype": _sum_in} for name in ("GEMM", "MatMul", "Conv", "ConvTranspose")},
}
