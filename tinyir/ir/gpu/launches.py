"""Further launches of a kernel: what one passes is like what it takes the place of, and its regions are those of the
kernel but for names.

    kernel fc1 : ...  reads X, W1, b1, writes H1          region fc1   yield H1[i0, i1] = ... X[i0, k0] ... W1[k0, i1]
    launch fc2 as fc1 with X = H1, W1 = W2, b1 = b2, H1 = H2      region fc2   ... H1[i0, k0] ... W2[k0, i1]

    kernel step1 : ...  reads fed[0, i0, i1]              region step1   ... fed[0, i0, i1]
    launch step2 as step1 with fed = fed at [1], ...      region step2   ... fed[1, i0, i1]

Then all that is shown of the kernel holds at each of its launches, and nothing is asked again. A tensor that is moved
is read at whole numbers alone along the axes that it is moved along, and the move is a multiple of 16 bytes. Regions
are compared side by side, while what made the text compared their forms (`ir.alike`): this is the second opinion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ...kit.records import replace
from ..body import Body, Literal, Read, Ref
from ..moved import MOVED_BY, moved_by
from ..region import Region, Tensor
from .nodes import Kernel, Launch, kernel_named
from .walk import compared, names_in, read_only_at, tensors_of

BODIES = get_args(Body)


def check_launches(module: Any) -> Iterator[Diag]:
    """E1603 for a name of two launches, E1683 for each launch that is not like the kernel that it launches."""
    alike, above = _Alike(module), dict[str, Kernel | Launch]()
    for one in module.launches:
        first = above.setdefault(one.name, one)
        if first is not one:
            labels = (Label(first.span, Phrase("the other one")),) if first.span else ()
            yield Diag("E1603", one.name, {"fault": Phrase("has the name of another launch")}, one.span, labels)
        kernel = above.get(one.kernel) if isinstance(one, Launch) else None
        if isinstance(one, Launch) and (fault := alike.fault(one, kernel if isinstance(kernel, Kernel) else None)):
            yield Diag("E1683", one.name, {"kernel": one.kernel, "fault": fault}, one.span)


def passed_of(launch: Kernel | Launch, named: Iterable[str]) -> dict[str, str]:
    """For each of the tensors that its kernel names the one that a launch passes."""
    put = dict(launch.passed) if isinstance(launch, Launch) else {}
    return {name: put.get(name, name) for name in named}


def named_in(kernel: Kernel, module: Any) -> tuple[str, ...]:
    """The tensors that the statements of a kernel name."""
    own = set(names_in(kernel.body))
    return tuple(name for name in tensors_of(kernel, module) if name in own)


def can_move(kernel: Kernel, tensor: Tensor, place: tuple[int, ...]) -> bool:
    """Whether a kernel can be given a tensor from another place on: `place` is added to the whole numbers at which it
    reads the tensor, and each that it is added to stays inside."""
    shape = [size.constant for size in tensor.type.shape]
    read = read_only_at(kernel, tensor.name)
    if read is None or len(place) > len(shape):
        return False
    for axis, by in enumerate(place):
        inner = shape[axis + 1 :]
        if by and (
            None in shape[axis:]
            or math.prod(inner) * tensor.type.dtype.bytes % MOVED_BY
            or not read[axis]
            or not all(0 <= at + by < shape[axis] for at in read[axis])
        ):
            return False
    return True


class _Alike:
    """Why launches of a module are none of their kernels."""

    def __init__(self, module: Any):
        self.module = module
        self.program = module.plans.program.program
        self.constants = module.plans.program.model.constants()
        self.groups: dict[str, list[Kernel | Launch]] = {}  # launches with those that serve them, in their order
        self.atomics: dict[tuple[str, ...], set[str]] = {}
        self.named: dict[str, tuple[str, ...]] = {}
        for one in module.launches:
            self.groups.setdefault(one.serves or one.name, []).append(one)
        for one in module.plans.plans:
            self.atomics.setdefault(one.regions, set()).add(one.atomics)

    def fault(self, launch: Launch, kernel: Kernel | None) -> str:
        """What is wrong, said of the kernel; empty where nothing is."""
        if kernel is None:
            return Phrase("is not a kernel that comes before it")
        if any(self.program.region(name) is None for name in (*launch.regions, *kernel.regions)):
            return Phrase("or its launch computes what is not a region of the program")
        if len(launch.regions) != len(kernel.regions):
            return Phrase(
                "computes {regions}, and its launch {others}",
                regions=", ".join(kernel.regions),
                others=", ".join(launch.regions),
            )
        theirs, own = tensors_of(kernel, self.module), tensors_of(launch, self.module)
        passed = self._passed(launch, kernel)
        if len(dict(launch.passed)) < len(launch.passed):
            return Phrase("is passed two tensors in the place of one")
        for name, _ in launch.passed:
            if name not in passed:
                return Phrase("has no tensor {name}", name=name)
        for name, other in passed.items():
            if other not in own:
                return Phrase(
                    "is passed {other} in the place of {name}, and the regions of its launch have no such tensor",
                    other=other,
                    name=name,
                )
        if fault := self._fault_of_moves(launch, kernel, theirs, passed):
            return fault
        pairs = _Pairs(dict(launch.moved))
        for name, other in passed.items():
            if not pairs.tensors(theirs[name], own[other]):
                return Phrase(
                    "is passed {other} in the place of {name}, which is not like it or has another in its place",
                    other=other,
                    name=name,
                )
        for name, other in zip(kernel.regions, launch.regions):
            if not pairs.regions(self.program.region(name), self.program.region(other)):
                return Phrase(
                    "computes {name}, and {other} is another region with what is passed", name=name, other=other
                )
        if self.atomics.get(kernel.regions) != self.atomics.get(launch.regions):
            return Phrase("has a plan that says other `atomics`")
        return self._fault_in_group(launch, kernel, passed)

    def _passed(self, launch: Kernel | Launch, kernel: Kernel) -> dict[str, str]:
        if kernel.name not in self.named:
            self.named[kernel.name] = named_in(kernel, self.module)
        return passed_of(launch, self.named[kernel.name])

    def _fault_of_moves(self, launch: Launch, kernel: Kernel, theirs: dict[str, Tensor], passed: dict[str, str]) -> str:
        """Why the kernel cannot be given a tensor from the place on that its launch says."""
        for name, place in launch.moved:
            if name not in passed or not can_move(kernel, theirs[name], place):
                return Phrase(
                    "is passed {name} from {place} on, and does not read it at whole numbers alone that stay inside, "
                    "multiples of 16 bytes apart",
                    name=name,
                    place=list(place),
                )
        return ""

    def _fault_in_group(self, launch: Launch, kernel: Kernel, passed: dict[str, str]) -> str:
        """Launches and those that serve them are alike together."""
        if launch.is_once != kernel.is_once or bool(launch.serves) != bool(kernel.serves):
            return Phrase("runs at other times")
        inputs = {t.name for name in launch.regions for t in self.program.region(name).inputs}
        for name in passed.values():
            if launch.is_once and name in inputs - self.constants:
                return Phrase("is passed {name}, which is not a constant of the model, to be made once", name=name)
        group, first = (self.groups.get(one.serves or one.name, []) for one in (launch, kernel))
        if [kernel_named(one) for one in group] != [one.name for one in first]:
            return Phrase("has other kernels that serve it, or they serve it in another order")
        for one, other in zip(group, first):
            if not isinstance(other, Kernel) or None in map(self.program.region, other.regions):
                continue  # told of that one
            theirs = self._passed(one, other)
            if any(passed[name] != theirs[name] for name in passed.keys() & theirs.keys()):
                return Phrase("is passed other tensors than {name}", name=one.name)
        return ""


class _Pairs:
    """Names of a kernel's regions, each with the one that has its place in those of another launch. `moved`: how much
    farther the other launch reads a tensor of the kernel."""

    def __init__(self, moved: Mapping[str, tuple[int, ...]]) -> None:
        self._moved = moved
        self._there: dict[tuple[str, str], str] = {}  # (kind, name) of the kernel's side
        self._here: dict[tuple[str, str], str] = {}

    def regions(self, one: Region, other: Region) -> bool:
        """Whether the regions are the same but for names, with the pairs that there are already."""
        if len(one.lets) != len(other.lets) or len(one.yields) != len(other.yields) or one.iters != other.iters:
            return False
        self._there = {key: name for key, name in self._there.items() if key[0] != "value"}
        self._here = {key: name for key, name in self._here.items() if key[0] != "value"}
        if not all(self._names("value", a.name, b.name) for a, b in zip(one.lets, other.lets)):
            return False
        known, there = ({t.name: t for t in (*r.inputs, *r.outputs)} for r in (one, other))
        return (
            all(self._same(a.expr, b.expr) for a, b in zip(one.lets, other.lets))
            and all(
                self._names("tensor", a.output, b.output)
                and (a.index, a.guard) == (b.index, b.guard)
                and self._same(a.expr, b.expr)
                for a, b in zip(one.yields, other.yields)
            )
            and all(
                self.tensors(known[name], there[other])
                for (kind, name), other in tuple(self._there.items())
                if kind == "tensor" and name in known and other in there
            )
        )

    def tensors(self, one: Tensor, other: Tensor) -> bool:
        """Whether a tensor can be in another's place: of its type, and in its own memory or not as that is."""
        attrs, others = dict(one.attrs), dict(other.attrs)
        shared, as_shared = attrs.pop("alias", None), others.pop("alias", None)
        attrs.pop("value", None), others.pop("value", None)
        if one.type != other.type or attrs != others or (shared is None) != (as_shared is None):
            return False
        known = self._there.get(("tensor", shared)) if shared is not None else as_shared
        return known in (None, as_shared) and self._names("tensor", one.name, other.name)

    def _names(self, kind: str, one: str, other: str) -> bool:
        """Whether two names are, or become, a pair: neither is another's."""
        return self._there.setdefault((kind, one), other) == other and self._here.setdefault((kind, other), one) == one

    def _same(self, one: Any, other: Any) -> bool:
        """Whether two expressions, or parts of them, are the same but for names."""
        if type(one) is not type(other):
            return False
        if isinstance(one, tuple):
            return len(one) == len(other) and all(map(self._same, one, other))
        if isinstance(one, Literal) or not isinstance(one, BODIES):
            return one == other
        if isinstance(one, Read) and not self._names("tensor", one.tensor, other.tensor):
            return False
        if isinstance(one, Ref) and not self._names("value", one.name, other.name):
            return False
        own = "tensor" if isinstance(one, Read) else "name" if isinstance(one, Ref) else ""
        if isinstance(one, Read) and (place := self._moved.get(one.tensor)):
            one = replace(one, index=moved_by(one.index, place))
        words = compared(type(one))
        return all(self._same(getattr(one, word), getattr(other, word)) for word in words if word != own)
