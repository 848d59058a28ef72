"""A node of an exported graph as its translation sees it: arguments by name, and the way to put ops into the
program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.expr import Expr
from ...ir.types import DTYPES, DType
from ...kit.diag import Refused, refuse
from ...kit.phrase import Phrase
from ..program.ops import Ops
from ..program.program import Program
from ..program.terms import Term, array_dtype

Number = int | float | bool
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2}  # a number takes the dtype of a tensor beside it unless its kind is later
GREATEST_E4M3 = 448.0
_DEFAULTS = {"b": "bool", "i": "i64", "f": "fp32"}


class Call(Ops):
    """One node. `args` are terms, lists of terms, numbers, sizes, dtypes or None by name; `types` are the dtypes and
    shapes that the archive states of its outputs; `wanted` says which of these something reads; `memory` is what it
    states of the tensors among the arguments, by name."""

    def __init__(
        self,
        op: str,
        name: str,
        args: dict[str, Any],
        types: Sequence[tuple[DType, tuple[Expr, ...]]],
        wanted: Sequence[bool],
        program: Program,
        memory: Mapping[str, Any] | None = None,
    ):
        super().__init__(name, program)
        self.memory = memory or {}
        self.target = op
        self.args = args
        self.types = list(types)
        self._wanted = list(wanted)

    # --- what the node says

    def get(self, key: str, default: Any = None) -> Any:
        """An argument; `default` where it is absent or None."""
        found = self.args.get(key)
        return default if found is None else found

    def tensor(self, key: str) -> Term:
        """A tensor, which must be there (E0144)."""
        found = self.args.get(key)
        if not isinstance(found, Term):
            raise self.fault(Phrase("its argument {key} is not a tensor", key=key))
        return found

    def optional(self, key: str) -> Term | None:
        """A tensor, or None where it is absent."""
        return self.tensor(key) if self.args.get(key) is not None else None

    def tensors(self, key: str) -> list[Any]:
        """A list of tensors; an optional one that is absent is None."""
        found = self.args.get(key)
        if not isinstance(found, list):
            raise self.fault(Phrase("its argument {key} is not a list of tensors", key=key))
        return found

    def operand(self, key: str) -> Term | Number:
        """A tensor or a number."""
        found = self.args.get(key)
        if isinstance(found, Expr):
            return self.known(found, "i64")
        if not isinstance(found, (Term, int, float)):
            raise self.fault(Phrase("its argument {key} is not a number", key=key))
        return found

    def array(self, key: str) -> np.ndarray:
        """The value of a tensor that is known, in a folding."""
        found = self.tensor(key).known
        assert found is not None
        return found

    def axis(self, key: str, rank: int, default: int | None = None) -> int:
        """The axis that an argument names, counted from 0 (E1006)."""
        found = self.get(key, default)
        if not isinstance(found, int) or not -max(rank, 1) <= found < max(rank, 1):
            raise refuse("E1006", self.name, axis=found, rank=rank)
        return found % max(rank, 1)

    def axes(self, key: str, rank: int) -> list[int] | None:
        """Axes counted from 0; None where none are named."""
        found = self.get(key)
        if found is None or found == []:
            return None
        named = found if isinstance(found, list) else [found]
        for axis in named:
            if not isinstance(axis, int) or not -max(rank, 1) <= axis < max(rank, 1):
                raise refuse("E1006", self.name, axis=axis, rank=rank)
        return [a % max(rank, 1) for a in named]

    def axis_of_parts(self, rank: int) -> int:
        """The axis that a split is along: `hsplit`, `vsplit` and `dsplit` say it by their names."""
        named = {"h": min(1, rank - 1), "v": 0, "d": 2}.get(self.target[0])
        return self.axis("dim", rank, 0) if named is None else named

    def starts(self, axis: int, extent: Expr) -> list[Expr]:
        """Where each part of a split begins: one behind the other, or where they are told to, which may overlap."""
        if "indices" in self.args:
            first = [Expr.of(i) if i >= 0 else extent + i for i in self.get("indices", [])]
            most = extent.constant
            known = [s if most is None else Expr.of(min(max(s.constant or 0, 0), most)) for s in first]
            return [Expr.of(0), *known]
        found = [Expr.of(0)]
        for _, shape in self.types[:-1]:
            found.append(found[-1] + shape[axis])
        return found

    def wants(self, output: int) -> bool:
        """Whether something reads that output."""
        return output < len(self._wanted) and self._wanted[output]

    @property
    def dtype(self) -> DType:
        """The dtype of the first output."""
        return self.types[0][0]

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The shape of the first output."""
        return self.types[0][1]

    def fault(self, fault: str) -> Refused:
        """The exception that says in which form this op is not supported."""
        return refuse("E0144", self.name, op=self.target, fault=fault)

    def strides(self, key: str) -> tuple[list[int], int] | None:
        """The strides of a tensor and where it begins in its memory, in elements; None where the archive states none.
        Raises Refused (E0144) for symbols."""
        meta = self.memory.get(key)
        if meta is None or len(meta["strides"]) != len(meta["sizes"]):
            return None
        stated = [*meta["strides"], meta["storage_offset"]]
        if any("as_int" not in size for size in stated):
            raise self.fault(Phrase("the strides of its operand are symbols"))
        *strides, start = (size["as_int"] for size in stated)
        return strides, start

    # --- what it becomes

    def translated(self, row: Callable[[Call], Any]) -> Any:
        """What the op's row makes of the node. Raises Refused (E0144) where a symbol is given for what must be a
        number."""
        try:
            return row(self)
        except (TypeError, Refused) as fault:
            given = [key for key, value in self.args.items() if isinstance(value, Expr)
                     or isinstance(value, list) and any(isinstance(v, Expr) for v in value)]  # fmt: skip
            told = fault.diags if isinstance(fault, Refused) else ()
            if not given or any(d.code != "E0103" or d.facts["key"] not in given for d in told):
                raise
            raise self.fault(Phrase("its {keys} is a symbol, not a number", keys=", ".join(given))) from None

    def promoted(self, *operands: Term | Number) -> list[Any]:
        """The operands in the dtype that torch computes in: that of the tensors with axes, unless one without axes, or
        a number, is of a later kind (bool, integer, float)."""
        dtype = self.joint_dtype(*operands)
        return [self.cast(o, dtype) if isinstance(o, Term) else _number(o, dtype) for o in operands]

    def in_range(self, *operands: Term | Number) -> list[Any]:
        """The same for sums, products and quotients, whose result is rounded: in fp32, as torch computes them, where a
        number is out of the range of the dtype. A mask's 0 times -1e9 is 0, not NaN."""
        dtype = self.joint_dtype(*operands)
        if any(not isinstance(o, Term) and _number(o, dtype) in (math.inf, -math.inf) for o in operands):
            dtype = DTYPES["fp32"] if dtype.bits < 32 else dtype
        return [self.cast(o, dtype) if isinstance(o, Term) else _number(o, dtype) for o in operands]

    def joint_dtype(self, *operands: Term | Number) -> DType:
        """The dtype of `promoted`."""
        tensors = [o.dtype for o in operands if isinstance(o, Term) and o.rank]
        points = [o.dtype for o in operands if isinstance(o, Term) and not o.rank]
        numbers = [DTYPES[_DEFAULTS[_kind_of(o)]] for o in operands if not isinstance(o, Term)]
        found: DType | None = None
        for group in (tensors, points, numbers):
            if not group:
                continue
            own = group[0]
            for other in group[1:]:
                own = _joined(own, other)
            if found is None or _rank_of(own) > _rank_of(found):
                found = own
        assert found is not None
        return found

    def cast(self, x: Term, dtype: DType | str) -> Term:
        """`x` as `dtype`; itself when it has it. What is out of the range of fp8e4m3, infinity too, becomes its
        greatest number, as torch 2.13 has it, and older ones in what they compiled for GPUs."""
        dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
        if dtype.name == "fp8e4m3" and x.dtype != dtype:
            wide = x if x.dtype.bits > 8 and x.dtype.is_float else super().cast(x, "fp32")
            x = self.fn("clip", wide, min=-GREATEST_E4M3, max=GREATEST_E4M3, part="saturate")
        return super().cast(x, dtype)

    def float_of(self, x: Term) -> Term:
        """`x`, or what it is in the dtype of the output where it is not a float."""
        return x if x.dtype.is_float else self.cast(x, self.dtype if self.dtype.is_float else DTYPES["fp32"])

    def expand(self, x: Term, shape: Sequence[Any]) -> Term:
        """`x` repeated to a shape."""
        wanted = tuple(Expr.of(d) for d in shape)
        return x if x.shape == wanted else self.op("Expand", x, shape=list(wanted))


def greatest(dtype: DType) -> float:
    """The greatest finite number of a float."""
    return (2 - 2.0 ** (1 - dtype.digits)) * 2.0 ** {"fp16": 15, "fp64": 1023}.get(dtype.name, 127)


def _kind_of(value: Number) -> str:
    return "b" if isinstance(value, bool) else "f" if isinstance(value, float) else "i"


def _rank_of(dtype: DType) -> int:
    return _KINDS[dtype.kind]


def _joined(x: DType, y: DType) -> DType:
    """The dtype that holds both, as torch promotes: of two floats of 16 bits that differ, fp32."""
    if x == y:
        return x
    if x.is_float or y.is_float:
        if not (x.is_float and y.is_float):
            return x if x.is_float else y
        return DTYPES["fp32"] if x.bits == y.bits else max(x, y, key=lambda d: d.bits)
    if "b" in (x.kind, y.kind):
        return y if x.kind == "b" else x
    if x.kind == y.kind:
        return max(x, y, key=lambda d: d.bits)
    signed, unsigned = (x, y) if x.kind == "i" else (y, x)
    return signed if signed.bits > unsigned.bits else DTYPES[f"i{min(64, 2 * unsigned.bits)}"]


def _number(value: Number, dtype: DType) -> Number:
    """The number as a float's dtype takes it: out of its range as what it is rounded to."""
    if not dtype.is_float:
        return value
    with np.errstate(over="ignore"):
        rounded = float(np.float64(value).astype(array_dtype(dtype)))
    return rounded if abs(value) > greatest(dtype) else float(value)
