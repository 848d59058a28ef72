"""Translation validation of values: what regions write is what the book says, at a few elements of each output.

Of each write of each region a few points are asked, the first and the last among them, with numbers that are drawn.
What the region reads from memory is given to both sides (`play.elements`), so that no element reaches back further than
its region. Where they differ, what is given may be what another value is too, or be kept in another order: then it is
computed as well, further and further back. Where they still differ, the outputs of both are played on NumPy.

It costs steps, which are bounded for a text, and so is what is played; what they do not reach, and what is too large to
be played, is counted as `writes unconfirmed`. Nothing here ends a run but a difference that was seen.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..ir import poly, region
from ..ir.body import Reduce, Scatter, operands_of
from ..ir.model import is_exchanged
from ..ir.region import Region, Yield
from ..kit.diag import Diag, Refused
from ..kit.groups import lists_of
from ..kit.records import dataclass
from ..kit.work import count
from .elements import BookElements, Held, Numbers, RegionElements, alike
from .scalar import Unsaid

MOST_STEPS = 4000  # of a point of a region, and
MOST_BACK = 20_000  # of one that differs at first, and
MOST_BACK_IN_ALL = 100_000  # of a text
POINTS = ((2_000, 6), (20_000, 3), (200_000, 1))  # of a write, where a text has taken fewer steps; behind them none
SIZES = (5, 7, 6, 9)  # of the symbols in turn
DEPTHS = (1, 2, math.inf)
MOST_PLAYED = 1 << 20  # elements of all values on both sides, with those that are folded: 8 MiB, some 20 ms
CALL = 1 << 9  # elements that NumPy computes in the time of a call
# At sizes that no input has there are places outside, divisions by 0 and shapes that do not fit; a nested text may need
# more of the stack or of memory than there is.
UNSAID = (Unsaid, ArithmeticError, LookupError, MemoryError, RecursionError, ValueError)
UNPLAYED = (*UNSAID, Refused, TypeError)  # NumPy has a TypeError for dtypes that do not go together
Env = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Write:
    """A yield of a region to a tensor that is to hold a value: an output of the model, or a buffer, which is called as
    what it holds."""

    region: Region
    item: Yield
    held: Held


def confirm(program: poly.Module, module: region.Module) -> list[Diag]:
    """A diagnostic (E1414) for an output that the regions give another number than the book."""
    try:
        found = _Values(program, module)
        unconfirmed = found.unconfirmed()
    except UNSAID:  # a size that is a division by 0 where symbols are small
        count("writes unconfirmed", sum(len(one.yields) for one in module.program.regions))
        return []
    count("element steps", found.steps + found.back)
    said = found.played() if unconfirmed else []
    if said is None:
        count("writes unconfirmed", unconfirmed)
    return said or []


class _Values:
    def __init__(self, program: poly.Module, module: region.Module):
        self.book, self.module, self.model = program.index, module, module.model
        self.given = {t.name: Held(t.name, is_exchanged(t)) for t in self.model.inputs}
        self.buffers = {t.name: t for t in module.program.buffers}
        self.writers = lists_of((t.name, one) for one in module.program.regions for t in one.outputs)
        self.by_book, self.by_regions = BookElements(self.book), RegionElements(module)
        self.sizes = self._sizes()
        self.steps = self.back = 0  # that were taken, and those further back

    def _sizes(self) -> dict[str, int]:
        """Small sizes where every axis has points, else those of a shape set."""
        small = self.model.sizes_near(SIZES)
        is_full = all(a.size.evaluate(small) > 0 for e in self.book.entries for a in e.axes)
        return small if is_full or not self.model.shape_sets else dict(self.model.shape_sets[0].sizes)

    def unconfirmed(self) -> int:
        """How many writes are not seen to be what the book says."""
        unconfirmed, claims = 0, self._claims()
        for one in self.module.program.regions:
            writes = [_Write(one, item, claims[item.output]) for item in one.yields if item.output in claims]
            for write in self._differing(writes):
                held = self._held(write)
                unconfirmed += held is None
                claims[write.item.output] = held or write.held
            self.given |= {t.name: claims[t.name] for t in one.outputs if t.name in claims}
        return unconfirmed

    def _claims(self) -> dict[str, Held]:
        """What each tensor holds that regions write."""
        types, found = self.book.tiny.type_of(), dict[str, Held]()
        for name, t in self.buffers.items():
            if name in self.writers and name in types:
                is_turned = types[name].shape != t.type.shape
                if types[name].shape == Held(name, is_turned).place(t.type.shape):
                    found[name] = Held(name, is_turned)
        state_of = {output: state for state, output in self.model.states().items()}
        for result in self.book.tiny.results:
            tensor = state_of.get(result.output, result.output)
            declared = self.model.input(tensor) or self.model.output(tensor)
            found[tensor] = Held(result.value, declared is not None and is_exchanged(declared))
        return found

    # --- single elements

    def _differing(self, writes: Sequence[_Write]) -> list[_Write]:
        """The writes of one region that differ at some point where what it reads is given, or that do not say."""
        asked, wrong = dict.fromkeys(range(len(writes)), 0), set[int]()
        most = next((points for steps, points in POINTS if self.steps < steps), 0)
        for number, env in enumerate(self._points(writes[0].region, most) if writes else ()):
            here = [n for n in asked if asked[n] < most and n not in wrong and _holds(writes[n].item, env)]
            if not here:
                continue
            self._begin(writes[0].region, number, 0)
            for n in here:
                asked[n] += 1
                if not self._is_same(writes[n], env):
                    wrong.add(n)
            self.steps += MOST_STEPS - self.numbers.steps
        return [write for n, write in enumerate(writes) if n in wrong or not asked[n]]

    def _is_same(self, write: _Write, env: Env) -> bool:
        """Whether a region writes what the book says, at a point; False where one does not say."""
        try:
            found = self.by_regions.yielded(write.region, write.item, env)
            place = write.held.place(tuple([e.evaluate(env) for e in write.item.index]))
            return alike(found, self.by_book.element(write.held.value, place))
        except UNSAID:
            return False

    def _begin(self, one: Region, seed: int, depth: float, most: int = MOST_STEPS) -> None:
        """Both sides with numbers of their own, for what is given to a region."""
        given = self._given_to(one, depth)
        self.numbers = Numbers(seed, most, is_positive=bool(seed % 2), is_whole=depth == math.inf)
        self.by_regions.begin(self.sizes, self.numbers, given)
        self.by_book.begin(self.sizes, self.numbers, {held.value for held in given.values()})

    def _points(self, one: Region, most: int) -> Iterator[Env]:
        """Points of a region's axes: the first, the last and others; one alone is none of the two."""
        spans = {a.name: a.size.evaluate(self.sizes) for a in one.iters}  # pyright: ignore - axes of `for` have sizes
        draw = random.Random(len(spans))
        for number in range(4 * most if all(size > 0 for size in spans.values()) else 0):
            drawn = {n: draw.randrange(size) for n, size in spans.items()}
            ends = {n: 0 if number == 0 else size - 1 for n, size in spans.items()}
            yield {**self.sizes, **(ends if number < 2 and most > 1 else drawn)}

    def _given_to(self, one: Region, depth: float) -> dict[str, Held]:
        """What a region is given, and the regions that make what it is not given: those of `depth` steps back."""
        found: dict[str, Held] = {}
        pending, seen = [(t.name, depth) for t in one.inputs], set[tuple[str, float]]()
        while pending:
            name, left = pending.pop()
            if (name, left) in seen:
                continue
            seen.add((name, left))
            if name in self.given and (left <= 0 or name not in self.writers):
                found[name] = self.given[name]
                continue
            pending += [(t.name, left - 1) for maker in self.writers.get(name, ()) for t in maker.inputs]
            alias = self.buffers[name].attr("alias") if name in self.buffers else None
            if alias is not None:
                pending.append((alias, left))
        self.back += len(seen) if depth else 0
        return found

    def _held(self, write: _Write) -> Held | None:
        """What a tensor holds where more is computed than what a region reads, or where a buffer is turned; None where
        that is not seen."""
        if any(self._agrees(write, depth) for depth in DEPTHS):
            return write.held
        held = Held(write.held.value, not write.held.is_turned)
        is_free = write.item.output in self.buffers and len(write.item.index) > 1
        return held if is_free and self._agrees(_Write(write.region, write.item, held), 0) else None

    def _agrees(self, write: _Write, depth: float) -> bool:
        """Whether both sides are the same at a few points; False behind MOST_BACK_IN_ALL steps of a text."""
        points = [env for env in self._points(write.region, 3) if _holds(write.item, env)][:3]
        for number, env in enumerate(points):
            most = min(MOST_BACK, MOST_BACK_IN_ALL - self.back)
            if most <= 0:
                return False
            self._begin(write.region, number, depth, most)
            is_same = self._is_same(write, env)
            self.back += most - self.numbers.steps
            if not is_same:
                return False
        return True

    # --- whole outputs

    def played(self) -> list[Diag] | None:
        """The first output that the regions give another number than the book on random inputs; None where that would
        take too long, or does not come to an end."""
        try:
            elements = sum(itertools.chain(self._tensors(), self._of_book(), self._of_regions()))
            if elements > MOST_PLAYED:
                return None
            count("elements played", elements)
            return self._played(self.sizes)
        except UNPLAYED:
            return None

    def _tensors(self) -> Iterator[int]:
        """Elements of the tensors in memory."""
        for t in (*self.model.inputs, *self.model.outputs, *self.buffers.values()):
            yield math.prod(d.evaluate(self.sizes) for d in t.type.shape)

    def _of_book(self) -> Iterator[int]:
        """Elements that the values of a book take, and calls: of a scan and a scatter one a place."""
        values = self.book.tiny.value_of()
        for e in self.book.entries:
            is_loop = values[e.value].op in ("SCAN", "SCATTER")
            places = [a.size.evaluate(self.sizes) for a in e.axes if is_loop and a.kind in ("reduce", "indirect")]
            yield math.prod(a.size.evaluate(self.sizes) for a in e.axes) + CALL * math.prod(places)

    def _of_regions(self) -> Iterator[int]:
        """The same of regions."""
        for one in self.module.program.regions:
            iters = {a.name: a.size.evaluate(self.sizes) for a in one.iters}  # pyright: ignore - they have sizes
            pending = [(item.expr, math.prod(iters.values())) for item in (*one.lets, *one.yields)]
            while pending:
                body, points = pending.pop()
                axes = body.axes if isinstance(body, Reduce | Scatter) else ()
                folded = math.prod(a.size.evaluate(self.sizes) for a in axes if a.size is not None)
                yield points * folded + CALL * (folded if isinstance(body, Scatter) else 1)
                pending += [(inner, points * folded) for inner in operands_of(body)]

    def _played(self, sizes: Env) -> list[Diag]:
        import numpy as np

        from .book import play as play_book
        from .kernel import differing, numbers
        from .region import play as play_regions
        from .roles import positive_inputs
        from .roundings import spread_of

        arrays: dict[str, Any] = {}
        for seed, t in enumerate(self.model.inputs):
            drawn = numbers([d.evaluate(sizes) for d in t.type.shape], t.type.dtype, seed)
            arrays[t.name] = np.abs(drawn) if t.name in positive_inputs(self.book) else drawn
        wanted, found = (
            play(one, arrays, sizes) for play, one in ((play_book, self.book), (play_regions, self.module))
        )
        spread: dict[str, Any] = {}
        for name, right in wanted.items():
            given = found[name], right, self.model.output(name).type.dtype, np.ones(right.shape, bool)  # pyright: ignore
            if len(differing(*given)) and not spread:  # by what roundings on the way do?
                spread = spread_of(self.module, arrays, sizes)
            wrong = differing(*given, moved=spread.get(name, 0))
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                return [Diag("E1414", name, {"tensor": name, "at": [*at], "found": given[0][at], "wanted": right[at]})]
        return []


def _holds(item: Yield, env: Env) -> bool:
    return all(b.holds(env) for b in item.guard)
