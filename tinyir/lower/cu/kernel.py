"""One kernel's statements as CUDA C."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from ...ir.body import Binary, Body, Read
from ...ir.expr import ONE, ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.across import ACROSS
from ...ir.gpu.extremes import EXTREMES
from ...ir.gpu.nodes import ROW_KINDS, Kernel, Place, Statement
from ...ir.gpu.walk import end_of, is_for_matrices, places_in, rounded_to, start_of, statements
from ...ir.intervals import INT_MAX, Interval
from ...ir.model import Model, show_name
from ...ir.plan import Module
from ...ir.region import Region, Tensor
from ...ir.remainder import remainders
from ...ir.types import DType
from ...kit.diag import refuse
from ...target.arch import SHARED_ALIGNMENT, aligned
from .across import Across
from .ampere import WORD, Ampere
from .folds import Folds
from .head import (
    COUNTED,
    SPECIAL,
    bounds_of,
    comment_of,
    parameters_of,
    plan_of,
    ranges_of,
    sizes_by_axis,
    specials_of,
)
from .hopper import Hopper, picks_one_thread
from .index import Integers
from .matrix import as_held
from .names import Names, comment
from .narrow import narrow
from .once import loaded_again, loaded_for_operands, loaded_once
from .pairs import Pairs, in_words
from .sized import Emitted
from .turns import SPELLINGS, Turns
from .value import NEAR, Values, arithmetic_type, gelu_in, memory_type
from .vectors import Vectors, as_read, carrying
from .words import Words

SWIZZLED_ALIGNMENT = 1024  # bytes: eight rows of the widest swizzle
LINE = 120  # characters, where there is a choice
STATIC_SHARED = 48 * 1024  # bytes; what is more must be asked for at the launch


def emit(
    kernel: Kernel,
    plans: Module,
    entry: str,
    buffers: tuple[Tensor, ...],
    alignment: int,
    launches: tuple[str, ...] = (),
) -> Emitted:
    """The CUDA of one kernel, whose shared memory begins on `alignment` bytes; what it is launched as is told above it.
    Raises Refused (E1620) for a statement that has no spelling yet."""
    return _Printer(kernel, plans, entry, buffers, alignment).run(launches)


def alignment_of(kernels: tuple[Kernel, ...]) -> int:
    """Bytes on which the shared memory of all kernels of a text begins, since they declare one name: those of a
    swizzled tile where a kernel has one."""
    found = (s for kernel in kernels for s in statements(kernel.body))
    is_swizzled = any(isinstance(s, nodes.TensorMap) or getattr(s, "swizzle", 0) for s in found)
    return SWIZZLED_ALIGNMENT if is_swizzled else SHARED_ALIGNMENT


class _Printer(Hopper, Ampere, Words, Turns, Vectors, Folds, Across):
    def __init__(self, kernel: Kernel, plans: Module, entry: str, buffers: tuple[Tensor, ...], alignment: int):
        super().__init__()
        self.kernel = kernel
        self.entry = entry
        self.alignment = alignment
        self.model: Model = plans.program.model
        program = plans.program.program
        self.regions: tuple[Region, ...] = tuple(r for r in map(program.region, kernel.regions) if r is not None)
        self.plan = plan_of(kernel, plans.plans)
        self.tensors: dict[str, Tensor] = {
            t.name: t for t in (*(t for r in self.regions for t in (*r.inputs, *r.outputs)), *buffers)
        }
        self.outputs = {
            s.to.name for s in statements(kernel.body) if isinstance(s, (nodes.Store, nodes.StoreRows, nodes.Atomic))
        } | {t.name for r in self.regions for t in r.outputs}
        self.outputs |= {
            n
            for s in statements(kernel.body)
            if isinstance(s, (*ACROSS, nodes.For))
            for n in (getattr(s, "held", ""), *(p.name for _, p in places_in(s)))
        }
        self.once = loaded_once(kernel, self.regions, self.outputs)
        self.in_lines = loaded_for_operands(kernel)
        self.again = loaded_again(kernel, self.outputs)
        self.picked: dict[str, nodes.Pick] = {}
        self.arrays: dict[str, nodes.Shared | nodes.Reg] = {}
        self.waiting, bring = as_read(kernel)
        self.names, self.in_words = Names(), in_words(kernel)
        self.carrying = carrying(kernel) | bring | set(self.waiting)
        self.used_tensors: set[str] = set()
        self.used_symbols: set[str] = set()
        self.used_special: dict[str, str] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.is_explained = False
        self.integers = Integers(ranges_of(kernel, self.model), spellings=SPELLINGS, spell=self._spell)
        self.values = Values(
            self.integers, self._element, lambda name: self.names.of("value", name), self._is_computed_in, kernel.name
        )
        self.pairs = Pairs(self.values, self._of_words, self.in_words, self.carrying, self._is_held)
        self.facts = start_of(kernel, self.model)
        self.sizes = sizes_by_axis(self.regions)
        self.shared_offset = 0
        self.limits: dict[Expr, int] = {}
        self.written_out = {s.name for s in statements(kernel.body) if isinstance(s, nodes.For) and not s.unroll}
        self.has_swizzle = any(getattr(s, "swizzle", 0) for s in statements(kernel.body))
        self.dynamic = (
            self._shared_bytes() > STATIC_SHARED
            or self.has_swizzle
            or any(isinstance(s, nodes.Mbarrier) for s in statements(kernel.body))
        )

    def _is_held(self, name: str) -> bool:
        """Whether a name is that of registers."""
        return isinstance(self.arrays.get(name), nodes.Reg)

    def run(self, launches: tuple[str, ...]) -> Emitted:
        for tensor in self.tensors:
            self.names.of("tensor", tensor)
        for symbol in self.model.symbols():
            self.names.of("symbol", symbol)
        self.block(self.kernel.body)
        tensors = tuple(t for t in self.tensors if t in self.used_tensors)
        symbols = tuple(s for s in self.model.symbols() if s in self.used_symbols)
        maps = tuple(m for name, m in self.maps.items() if name == m.name in self.used_maps)
        named = {self.names.of("tensor", t): self.tensors[t] for t in tensors}
        parameters = [*parameters_of(named, self.outputs)]
        parameters += [f"const __grid_constant__ tensor_map {self.names.of('map', m.name)}" for m in maps] + [
            f"int {self.names.of('symbol', s)}" for s in symbols
        ]
        special = specials_of(self.used_special, self.lines, self.kernel)
        dynamic = [f"  extern __shared__ __align__({self.alignment}) unsigned char smem[];"] if self.dynamic else []
        return Emitted(
            tuple(comment_of(self.regions, self.plan, launches)),
            bounds_of(self.kernel),
            self.entry,
            tuple(parameters),
            (*special, *dynamic, *self.lines),
            self.names.given,
            tensors,
            maps,
            symbols,
            self.shared_offset if self.dynamic else 0,
        )

    def _shared_bytes(self) -> int:
        return sum(aligned(s.bytes) for s in statements(self.kernel.body) if isinstance(s, nodes.Shared))

    # --- names

    def _spell(self, name: str) -> str:
        if name == "thread.index" and self.kernel.threads == self.kernel.block[0]:
            name = "thread.x"
        if name in SPECIAL or name in COUNTED:
            self.used_special[name] = self.names.of("special", name)
            return self.used_special[name]
        if name in self.model.symbols():
            self.used_symbols.add(name)
            return self.names.of("symbol", name)
        return self.names.of("integer", name)

    def _in_registers(self, name: str) -> bool:
        return isinstance(self.arrays.get(name), nodes.Reg)

    def _element(self, name: str, index: tuple[Expr, ...], slot: Expr | None) -> str:
        """The C of one element: of an array by its indices, of a tensor by its offset."""
        if name in self.arrays:
            if getattr(self.arrays[name], "kind", ""):
                return (
                    self._held_element(name, index)
                    if self._in_registers(name)
                    else self._sent_element(name, index, slot)
                )
            if getattr(self.arrays[name], "swizzle", 0):
                return self._swizzled_element(name, index, slot)
            if getattr(self.arrays[name], "cluster", 0):
                return self._of_cluster(name, index, slot)
            if name in self.in_words:
                *rows, at = index
                word = self._of_words(name, (*rows, at // 4))
                return (
                    f"({self.arrays[name].type.dtype.cuda})({word} >> {self.integers.c(8 * (at - 4 * (at // 4)), 0)})"
                )
            ring = () if slot is None else (slot,)
            return self.names.of("array", name) + "".join(f"[{self.integers.c(e, 0)}]" for e in (*ring, *index))
        self.used_tensors.add(name)
        return f"{self.names.of('tensor', name)}[{self.integers.offset(self.of_memory(name).type.shape, index)}]"

    # --- statements

    def say(self, line: str) -> None:
        self.lines.append("  " * self.depth + line if line else "")

    @contextlib.contextmanager
    def braces(self, head: str = "{") -> Iterator[None]:
        """What is said meanwhile is a block of its own behind `head`, which opens it."""
        self.say(head)
        self.depth += 1
        yield
        self.depth -= 1
        self.say("}")

    @contextlib.contextmanager
    def unrolled(self, *loops: tuple[str, int]) -> Iterator[None]:
        """What is said meanwhile is done for each number below a count, in a loop in a loop."""
        with contextlib.ExitStack() as opened:
            for name, count in loops:
                self.say("#pragma unroll")
                opened.enter_context(self.braces(f"for (int {name} = 0; {name} < {count}; ++{name}) {{"))
            yield

    @contextlib.contextmanager
    def scope(self, ranges: Mapping[str, Interval]) -> Iterator[None]:
        """These ranges, and what else is learnt meanwhile, are forgotten afterwards."""
        outer, facts = self.integers.ranges, self.facts
        self.integers.ranges = {**outer, **ranges}
        yield
        self.integers.ranges, self.facts = outer, facts

    def block(self, body: Iterable[Statement]) -> None:
        before, extremes = None, []
        for statement in body:
            self.before, before = before, statement
            write = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if write is None:
                raise refuse("E1620", self.kernel.name, statement.span, what=f"`{type(statement).__name__}` statement")
            write(statement)
            if isinstance(statement, EXTREMES):
                extremes.append((len(self.lines) - 1, statement.name))
        for line, name in reversed(extremes):  # ranges may have decided what they were for
            self._drop_unused(line, (name,))

    def _nested(self, head: str, body: Iterable[Statement], first: Iterable[str] = ()) -> None:
        with self.braces(f"{head} {{" if head else "{"), self.scope({}):
            for line in first:
                self.say(line)
            self.block(body)

    def _on_one_line(self, first: int) -> None:
        """The lines from here on, a condition and what is done there, on one line where that is one statement."""
        head, *body = self.lines[first:]
        if len(body) == 2 and body[0].endswith(";") and len(head) + len(body[0].strip()) <= LINE:
            self.lines[first:] = [head.removesuffix("{") + body[0].strip()]

    def _assume(self, s: nodes.Assume) -> None:
        self.facts = self.facts.with_guard(s.guard)  # the launch checks it (ir.manifest)
        self.limits |= {
            b.expr: b.upper.constant - 1 for b in s.guard if b.upper is not None and b.upper.constant is not None
        }

    def _pick(self, s: nodes.Pick) -> None:
        """A pointer to the current tensor, or a reference to the map."""
        *firsts, last = s.of
        kind = "map" if last in self.maps else "tensor"
        at = self.integers.c(s.at, 0)
        chosen = "".join(
            f"{at} == {number} ? {self.names.of(kind, name)} : " for number, name in enumerate(firsts)
        ) + self.names.of(kind, last)
        if kind == "map":
            self.used_maps.update(s.of)
            self.maps[s.name] = self.maps[last]
            self.say(f"const tensor_map &{self.names.of(kind, s.name)} = {chosen};")
            return
        self.used_tensors.update(s.of)
        self.picked[s.name] = s
        constant = "" if s.name in self.outputs else "const "
        self.say(
            f"{constant}{memory_type(self.tensors[last].type.dtype)} *const {self.names.of(kind, s.name)} = {chosen};"
        )

    def _shared(self, s: nodes.Shared) -> None:
        if s.swizzle:
            self._swizzled(s)
            return
        self.arrays[s.name] = s
        name, dtype = self.names.of("array", s.name), memory_type(s.type.dtype)
        shape = as_held(s) if s.kind else tuple(e.evaluate({}) for e in s.type.shape)
        dims = "".join(f"[{n}]" for n in ((s.ring,) if s.ring > 1 else ()) + shape)
        if self.dynamic:
            rest = dims[dims.index("]") + 1 :]
            self.say(
                f"{dtype} (&{name}){dims} = *({dtype} (*){dims})(smem + {self.shared_offset});"
                if rest
                else f"{dtype} *{name} = ({dtype} *)(smem + {self.shared_offset});"
            )
            self.shared_offset += aligned(s.bytes)
        else:
            self.say(f"__shared__ __align__(16) {dtype} {name}{dims};")

    def _reg(self, s: nodes.Reg) -> None:
        if s.kind in ROW_KINDS:
            self._row_registers(s)
            return
        if s.kind:
            (self._fragments if s.kind.startswith("mma") else self._matrix)(s)
            return
        self.arrays[s.name] = s
        sizes = ((s.ring,) if s.ring > 1 else ()) + tuple(e.evaluate({}) for e in s.type.shape)
        name = self.names.of("array", s.name)
        dtype = (memory_type if s.name in self.carrying else arithmetic_type)(s.type.dtype)
        if s.name in self.in_words:
            dtype, sizes = "unsigned int", (*sizes[:-1], sizes[-1] // WORD)
        count = 1
        for size in sizes:
            count *= size
        one = f" = {{{self.values.value(s.init)}}}" if s.init is not None and count == 1 else ""
        init = " = {}" if s.is_zeroed else one
        self.say(f"{dtype} {name}{''.join(f'[{n}]' for n in sizes)}{init};")
        if s.init is not None and not init:
            for depth, size in enumerate(sizes):
                self.say("#pragma unroll")
                self.say(f"for (int e{depth} = 0; e{depth} < {size}; ++e{depth})")
                self.depth += 1
            self.say(f"{name}{''.join(f'[e{d}]' for d in range(len(sizes)))} = {self.values.value(s.init)};")
            self.depth -= len(sizes)

    def _let(self, s: nodes.Let) -> None:
        value = self.integers.c(s.value, 0)
        found = self._range(s.value, self.sizes.get(s.name, ()))
        self.facts = self.facts.with_let(s.name, s.value)
        found = found if found.fits(INT_MAX) else self.facts.ranges[s.name]
        if found.fits(INT_MAX) and self.integers.is_long(s.value):
            value = f"(int)({value})"
        self.integers.ranges[s.name] = found
        self.say(f"const {'int' if found.fits(INT_MAX) else 'long long'} {self.names.of('integer', s.name)} = {value};")

    def _range(self, value: Expr, sizes: tuple[Expr, ...]) -> Interval:
        """The range of an integer; where arithmetic on ranges gives none of an int, that of the axis of its name, if
        guards prove it so, or that of a remainder."""
        found = self.integers.interval(value)
        limit = self.limits.get(self.facts.plain(value))
        if limit is not None and found.low is not None:
            return Interval(found.low, limit)
        if found.low is not None and found.low >= 0 and found.fits(INT_MAX) or not self.facts.is_at_least(value, ZERO):
            return found
        if found.fits(INT_MAX):
            return Interval(0, found.high)
        limits = (*sizes, *(r.divisor for r in remainders(value) if r.factor == ONE and r.rest == ZERO))
        ends = [self.integers.interval(size).high for size in limits if self.facts.is_below(value, size)]
        least = min((e for e in ends if e is not None), default=None)
        return found if least is None else Interval(0, least - 1)

    def _choose(self, s: nodes.Choose) -> None:
        most = self.integers.interval(s.extent)
        kind = "int" if most.fits(INT_MAX) else "long long"
        short = narrow(s.value, self.integers.interval)
        value = self.values.value(short[0] if short is not None else s.value)
        known = Interval(-1, None if most.high is None else most.high - 1)
        if short is not None and short[1].low >= 0 and most.low is not None and short[1].high < most.low:
            known, call = short[1], value  # it is below, whatever rows and columns are
        else:
            call = f"{'(int)' if kind == 'int' else ''}place_below({value}, {self.integers.c(s.extent)})"
        self.integers.ranges[s.name] = known
        self.facts = self.facts.with_range(s.name, Expr.of(-1), s.extent)
        self.say(f"const {kind} {self.names.of('integer', s.name)} = {call};")

    def _value(self, s: nodes.Value) -> None:
        origin = next((let.origin for r in self.regions for let in r.lets if let.name == s.name), None)
        self.values.loops_of[s.name] = self.values.loops
        note = f"  {comment(str(origin).removeprefix('from '))}" if origin is not None else ""
        rounded = rounded_to(self.kernel, s.name) if gelu_in(s.value) is not None else ""
        if s.value.dtype.name in NEAR and is_for_matrices(self.kernel, s.name):
            text = self.values.before_rounding(s.value, s.value.dtype)
        else:
            text = self.values.near(s.value, rounded)
        self.say(f"const {arithmetic_type(s.value.dtype)} {self.names.of('value', s.name)} = {text};{note}")

    def _for(self, s: nodes.For) -> None:
        is_explained = self._explain(s)
        low, high = self.integers.interval(s.low), self.integers.interval(s.high)
        step = self.integers.interval(s.step).high
        rng = Interval(low.low, None if high.high is None else high.high - 1)
        if (
            high.high is None or step is None or high.high - 1 + step > INT_MAX
        ):  # the last step must not overflow either
            rng = Interval(low.low, None)
        kind = "int" if rng.fits(INT_MAX) else "long long"
        name = self.names.of("integer", s.name)
        advance = f"++{name}" if s.step.constant == 1 else f"{name} += {self.integers.c(s.step)}"
        if s.via:
            advance = self._drawn(s, kind)
        self.say(f"#pragma unroll {s.unroll}" if s.unroll else "#pragma unroll")
        head = f"for ({kind} {name} = {self.integers.c(s.low)}; {name} < {self.integers.c(s.high)}; {advance})"
        explained, self.is_explained = self.is_explained, self.is_explained or is_explained
        self.values.loops += 1
        with self.scope({s.name: rng}):
            self.facts = self.facts.with_range(s.name, s.low, end_of(s))
            self._nested(head, s.body, self._draw(s))
        self.values.loops -= 1
        self.is_explained = explained

    def _explain(self, s: nodes.For) -> bool:
        """Says above a loop what of region and plan it is; True when it did, so that the loops inside stay silent."""
        if self.plan is None or self.is_explained:
            return False
        inside = list(statements(s.body))
        stores = dict.fromkeys(i.to.name for i in inside if isinstance(i, (nodes.Store, nodes.StoreRows)))
        has_copy = any(isinstance(i, (nodes.Copy, nodes.Barrier)) for i in inside)
        if stores:
            values = dict.fromkeys(f"%{show_name(i.name)}" for i in inside if isinstance(i, nodes.Value))
            self.say(
                comment(
                    f"region {', '.join(map(show_name, self.kernel.regions))}: {', '.join([*values, *map(show_name, stores)])}"  # noqa: E501
                )
            )
        elif (
            not has_copy
            and self.plan.family == "contraction"
            and self.plan.micro
            and any(isinstance(i, nodes.Assign) for i in inside)
        ):
            self.say(comment(f"plan micro {list(self.plan.micro)}: this thread's share of the tile"))
        return bool(stores) or not has_copy

    def _if(self, s: nodes.If) -> None:
        guard = self.integers.guard(s.guard)
        facts, self.facts = self.facts, self.facts.with_guard(s.guard)
        alone, self.is_one_thread = self.is_one_thread, self.is_one_thread or picks_one_thread(s)
        first = len(self.lines)
        self._nested("" if guard == "true" else f"if ({guard})", s.body)
        if guard != "true" and not s.otherwise:
            self._on_one_line(first)
        self.facts, self.is_one_thread = facts, alone
        if s.otherwise and guard != "true":
            self.lines[-1] += " else {"
            self.depth += 1
            self.block(s.otherwise)
            self.depth -= 1
            self.say("}")

    def _barrier(self, s: nodes.Barrier) -> None:
        if s.scope == "warp":
            self.say("__syncwarp();")
        elif s.scope != "cta":
            self._wide_barrier(s)
        else:
            self.say("__syncthreads();")

    def _assign(self, s: nodes.Assign) -> None:
        (self._into_word if self._is_operand(s.to.name) else self._moved)(s)

    def _store(self, s: nodes.Store) -> None:
        (self._into_piece if s.by == "stmatrix" else self._moved)(s)

    def _moved(self, s: nodes.Assign | nodes.Store) -> None:
        """An element, or a few in a loop that the compiler joins to one access (`vector`): arrays are aligned and
        indices say so."""
        if self._in_vector(s):
            return
        for name, size in s.over:
            c = self.names.of("integer", name)
            self.say("#pragma unroll")
            self.say(f"for (int {c} = 0; {c} < {size}; ++{c})")
            self.depth += 1
        with self.scope({name: Interval(0, size.evaluate({}) - 1) for name, size in s.over}):
            self._write(s.to, s.value)
        self.depth -= len(s.over)

    def _write(self, to: Place, value: Body) -> None:
        target = self._element(to.name, to.index, to.slot)
        same = Read(to.name, to.index, value.dtype, to.slot)
        if (
            isinstance(value, Binary)
            and value.op == "add"
            and value.left == same
            and value.dtype.name in ("fp32", "fp64")
        ):
            self.say(f"{target} += {self.values.value(value.right)};")
        elif self._is_computed_in(to.name):
            self.say(f"{target} = {self.values.value(value)};")
        else:
            dtype = self._dtype(to.name)
            self.say(f"{target} = {self.values.stored(value, dtype)};")

    def _dtype(self, name: str) -> DType:
        return (self.arrays[name] if name in self.arrays else self.of_memory(name)).type.dtype

    def is_memory(self, name: str) -> bool:
        """Whether a name is a tensor's, or that of one that is picked."""
        return name in self.tensors or name in self.picked

    def of_memory(self, name: str) -> Tensor:
        """The tensor of a name; of those that may be picked, which are alike, one."""
        return self.tensors[self.picked[name].of[0] if name in self.picked else name]
