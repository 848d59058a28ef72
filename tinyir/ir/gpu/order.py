"""The verifier of gpu text: barriers, tokens, and when memory may be read, refilled and left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.groups import lists_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ..body import Read, walk
from ..expr import Expr
from ..traits import axes_of
from . import nodes
from .across import ACROSS
from .extremes import EXTREMES
from .mbarriers import check_mbarriers
from .nodes import PRODUCERS, Kernel, Place, Statement
from .rings import check_handed_over, check_rings
from .sends import check_sends
from .walk import THREAD_NAMES, Visit, places_in, reads_in, statements

WARP, WARPGROUP = 32, 128
OF_WARP = "warp.index"  # the slot that a warp has to itself
OF_A_WARP = (nodes.WarpReduce, nodes.RowReduce, nodes.Ldmatrix, nodes.Mma)  # all lanes together,
OF_A_WARPGROUP = (nodes.StoreRows, nodes.Wgmma)  # all threads
ENGINE_OF = {nodes.CpAsync: "cp_async", nodes.Wgmma: "wgmma", nodes.TmaStore: "tma_store"}


# --- barriers


def check_barriers(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """Every thread of the CTA (or of the role, for a named barrier) comes to every barrier: nothing around it depends
    on the thread. So do all of a warp, or of a warpgroup, to what they do together."""
    for v in walked:
        s = v.statement
        if isinstance(s, OF_A_WARP):
            yield from _check_lanes(kernel, s, v)
        if not isinstance(s, (nodes.Barrier, nodes.BlockReduce, nodes.BlockScan, nodes.Copy, *OF_A_WARPGROUP, *ACROSS)):
            continue
        role = next((p for p in v.path if isinstance(p, nodes.Role)), None)
        is_named = isinstance(s, nodes.Barrier) and s.threads > 0
        is_second_half = isinstance(s, nodes.Barrier) and s.half == "wait"  # those who have come need not all wait
        if (
            role is not None
            and not is_named
            and not is_second_half
            and not isinstance(s, (nodes.Copy, *OF_A_WARPGROUP))
            and getattr(s, "scope", "") != "warpgroup"
        ):
            yield Diag(
                "E1609",
                kernel.name,
                {"what": _word(s), "why": Phrase("inside role {role}, which other warps never enter", role=role.name)},
                s.span,
                _label(role),
            )
        if is_named and s.threads != (role.threads if role else kernel.threads):
            have = role.threads if role else kernel.threads
            yield Diag(
                "E1609",
                kernel.name,
                {
                    "what": _word(s),
                    "why": Phrase("for {threads} threads where {have} are", threads=s.threads, have=have),
                },
                s.span,
            )
        is_of_warpgroup = isinstance(s, OF_A_WARPGROUP) or getattr(s, "scope", "") == "warpgroup"
        same = frozenset(("warpgroup.index",)) if is_of_warpgroup else frozenset()
        chosen = (nodes.If(s.zero, (), span=s.span),) if isinstance(s, nodes.Wgmma) and s.zero else ()
        for around in (*v.path, *chosen):
            if isinstance(around, nodes.Each) or not _is_uniform(around, v, same):
                yield Diag(
                    "E1609",
                    kernel.name,
                    {"what": _word(s), "why": Phrase("under a condition that differs between threads")},
                    s.span,
                    _label(around),
                )
                break


def _check_lanes(kernel: Kernel, s: Statement, v: Visit) -> Iterator[Diag]:
    """All lanes of a warp come to a shuffle, or to a matrix unit: nothing around it depends on the lane, or on the row
    of threads where several share a warp."""
    same = frozenset(("warp.index", "warpgroup.index")) | (
        frozenset(("thread.y", "thread.z")) if kernel.block[0] % WARP == 0 else frozenset()
    )
    for around in v.path:
        if not _is_uniform(around, v, same):
            yield Diag(
                "E1609",
                kernel.name,
                {"what": _word(s), "why": Phrase("under a condition that differs between lanes")},
                s.span,
                _label(around),
            )
            return


def _word(s: Statement) -> str:
    names = {
        "Barrier": Phrase("a barrier"),
        "BlockReduce": "block_reduce",
        "BlockScan": "block_scan",
        "WarpReduce": "warp_reduce",
        "LookBack": "look_back",
        "StoreRows": "store_rows",
        "RowReduce": "row_reduce",
    }
    return names.get(type(s).__name__, type(s).__name__.lower())


def _label(s: Statement) -> tuple[Label, ...]:
    return (Label(s.span, Phrase("inside this")),) if s.span else ()


def _is_uniform(around: Statement, v: Visit, same: frozenset[str] = frozenset()) -> bool:
    """Whether all threads take the same way into a block; names in `same` do not tell those in question apart."""
    if isinstance(around, nodes.If):
        exprs = [e for b in around.guard for e in b.exprs]
    elif isinstance(around, nodes.For):
        exprs = [around.low, around.high, around.step]
    else:
        return True
    return not any(_varies(name, v, same) for e in exprs for name in e.names())


def _varies(name: str, v: Visit, same: frozenset[str]) -> bool:
    """Whether an integer differs between threads of a CTA or role, or those that `same` does not tell apart."""
    if name in THREAD_NAMES:
        return name not in same
    made = v.names.get(name)
    if isinstance(made, nodes.Let):
        return any(_varies(n, v, same) for n in made.value.names() if n != name)
    if isinstance(made, nodes.For):
        return any(_varies(n, v, same) for e in (made.low, made.high, made.step) for n in e.names() if n != name)
    if isinstance(made, EXTREMES):
        return any(_varies(n, v, same) for e in made.of for n in e.names() if n != name)
    if isinstance(made, nodes.Choose):  # the same place of the same memory is the same number
        is_own = any(isinstance(n, Read) and n.tensor in v.arrays for n in walk(made.value))
        return is_own or any(_varies(n, v, same) for n in axes_of(made.value) if n != name)
    return isinstance(made, nodes.Each)


# --- tokens


def check_tokens(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """A token is made by one statement, committed if it is a cp_async's, and waited for by a wait of its engine or
    barrier."""
    made: dict[str, Statement] = {}
    for s in statements(kernel.body):
        if isinstance(s, PRODUCERS):
            if s.token in made:
                yield Diag(
                    "E1612",
                    kernel.name,
                    {"token": s.token, "fault": Phrase("is made by two statements")},
                    s.span,
                    _first(made[s.token]),
                )
            made.setdefault(s.token, s)
    waited: set[str] = set()
    committed: set[str] = set()
    for s in statements(kernel.body):
        for token in getattr(s, "tokens", ()):
            maker = made.get(token)
            if maker is None:
                yield Diag(
                    "E1612", kernel.name, {"token": token, "fault": Phrase("is not made by any statement")}, s.span
                )
            elif isinstance(s, nodes.Commit):
                committed.add(token)
                if not isinstance(maker, nodes.CpAsync):
                    yield Diag(
                        "E1612",
                        kernel.name,
                        {"token": token, "fault": Phrase("is not a cp_async's, so there is nothing to commit")},
                        s.span,
                        _first(maker),
                    )
            else:
                waited.add(token)
                wrong = _wrong_wait(s, maker)
                if wrong:
                    yield Diag("E1612", kernel.name, {"token": token, "fault": wrong}, s.span, _first(maker))
    for token, maker in made.items():
        if token not in waited:
            yield Diag("E1612", kernel.name, {"token": token, "fault": Phrase("is never waited for")}, maker.span)
        elif isinstance(maker, nodes.CpAsync) and token not in committed:
            yield Diag(
                "E1612", kernel.name, {"token": token, "fault": Phrase("is not in a committed group")}, maker.span
            )


def _wrong_wait(s: Statement, maker: Statement) -> str:
    if isinstance(s, nodes.WaitGroup):
        return (
            "" if ENGINE_OF.get(type(maker)) == s.engine else Phrase("is not of the engine {engine}", engine=s.engine)
        )
    if isinstance(s, nodes.Wait) and isinstance(maker, (nodes.TmaLoad, nodes.Send)):
        return (
            ""
            if maker.on.name == s.barrier.name
            else Phrase("lands on {on}, not on {barrier}", on=maker.on.name, barrier=s.barrier.name)
        )
    return Phrase("is not what an mbarrier can wait for")


def _first(s: Statement) -> tuple[Label, ...]:
    return (Label(s.span, Phrase("made here")),) if s.span else ()


# --- memory


@dataclass
class _State:
    """What has happened since the last barrier: places written and read, by this role's threads; the tokens waited for,
    and those of copies that may have begun."""

    written: dict[tuple[str, str], Statement]
    read: dict[tuple[str, str], Statement]
    waited: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()

    def copy(self) -> _State:
        return _State(dict(self.written), dict(self.read), self.waited, self.begun)

    def join(self, other: _State) -> _State:
        return _State(
            {**self.written, **other.written},
            {**self.read, **other.read},
            self.waited & other.waited,
            self.begun | other.begun,
        )

    def may_land(self, load: Statement) -> bool:
        """Whether a load may still be on its way: one of other threads always, one of these once it has begun."""
        is_begun = not isinstance(load, nodes.CpAsync) or load.token in self.begun
        return is_begun and load.token not in self.waited


def check_memory(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """Shared memory is read after it is whole and refilled after it is read."""
    arrays = {s.name: s for s in statements(kernel.body) if isinstance(s, (nodes.Shared, nodes.Reg))}
    loads = lists_of(
        (s.to.name, s) for s in statements(kernel.body) if isinstance(s, (nodes.CpAsync, nodes.TmaLoad, nodes.Send))
    )
    walk = _Memory(kernel, arrays, loads)
    walk.end(walk.block(kernel.body, _State({}, {})))
    yield from walk.found.values()


class _Memory:
    """A forward walk; loops are walked twice, so that the second round meets what the first left."""

    def __init__(self, kernel: Kernel, arrays: dict[str, Any], loads: dict[str, list[Statement]]):
        self.kernel = kernel
        self.arrays = arrays
        self.threads = kernel.threads  # of the role around, or of all
        self.loads = loads
        self.found: dict[tuple, Diag] = {}

    def block(self, body: Iterable[Statement], state: _State) -> _State:
        roles: list[_State] = []  # they run beside one another, and what follows runs after all of them
        for s in body:
            if isinstance(s, nodes.Role):
                self.threads = s.threads
                roles.append(self.block(s.body, state.copy()))
                self.threads = self.kernel.threads
                continue
            while roles:
                state = state.join(roles.pop())
            if isinstance(s, nodes.For):
                once = self.block(s.body, state.copy())
                twice = self.block(s.body, once if _runs(s) else once.join(state))
                state = twice if _runs(s) else twice.join(state)
            elif isinstance(s, nodes.If):
                state = self.block(s.body, state.copy()).join(self.block(s.otherwise, state.copy()))
            elif isinstance(s, nodes.Each):
                state = self.block(s.body, state)
            else:
                self._one(s, state)
        return state

    def end(self, state: _State) -> None:
        """A CTA stays until the others of its cluster have read its shared memory."""
        for (name, _), reader in state.read.items():
            if self._is_of_cluster(name):
                self._fault(
                    reader,
                    "E1613",
                    reader,
                    place=name,
                    fault=Phrase("is read by other CTAs, and there is no `barrier cluster` before the kernel's end"),
                )

    def _one(self, s: Statement, state: _State) -> None:
        if isinstance(s, nodes.BlockReduce):
            self._fold(s, state)
        elif isinstance(s, (nodes.Barrier, nodes.BlockScan, nodes.Ticket, nodes.LookBack)):
            if not getattr(s, "half", ""):
                self._meet(s.scope if isinstance(s, nodes.Barrier) else "cta", state)
        for node in reads_in(s):
            if isinstance(node, Read) and node.tensor in self.arrays:
                self._read(s, Place(node.tensor, node.index, node.slot), state)
        for word, place in places_in(s):
            if place.name in self.arrays and word in ("source", "a", "b"):
                self._read(s, place, state)
        if isinstance(s, (nodes.Copy, nodes.CpAsync, nodes.Split, nodes.Store, nodes.TmaLoad)) and isinstance(
            self.arrays.get(s.to.name), nodes.Shared
        ):
            self._write(s, state)
        if isinstance(s, (nodes.WaitGroup, nodes.Wait)):
            state.waited |= set(s.tokens)
        if isinstance(s, nodes.CpAsync):
            state.begun |= {s.token}

    def _meet(self, scope: str, state: _State) -> None:
        for touched in (state.written, state.read):
            for key in [key for key in touched if self._is_met(key, scope)]:
                del touched[key]

    def _fold(self, s: nodes.BlockReduce, state: _State) -> None:
        """A fold over the CTA writes its array, meets, and reads it; unless it is fresh, it meets before too."""
        key = self._key(Place(s.via, ()))
        if not s.is_fresh:
            self._meet("cta", state)
        elif key in state.written or key in state.read:
            other = state.written.get(key) or state.read[key]
            self._fault(
                s,
                "E1613",
                other,
                place=s.via,
                fault=Phrase("is refilled with no barrier after other threads read it: it is not fresh"),
            )
        self._meet("cta", state)
        state.read[key] = s

    def _is_met(self, key: tuple[str, str], scope: str) -> bool:
        """Whether all that touch an array's slot come to a barrier of this scope."""
        if scope == "warp":
            return key[1] == OF_WARP or self.kernel.threads <= WARP
        if scope == "warpgroup" and self.threads > WARPGROUP:
            return "warpgroup.index" in key[1]
        return scope == "cluster" or not self._is_of_cluster(key[0])

    def _is_of_cluster(self, name: str) -> bool:
        return getattr(self.arrays[name], "cluster", 0) > 0

    def _key(self, place: Place) -> tuple[str, str]:
        return place.name, "" if self._is_of_cluster(place.name) else str(place.slot)

    def _read(self, s: Statement, place: Place, state: _State) -> None:
        array = self.arrays[place.name]
        if isinstance(array, nodes.Reg):
            return
        late = [load for load in self.loads.get(place.name, ()) if state.may_land(load)]
        if late:
            self._fault(
                s,
                "E1613",
                late[0],
                place=str(place),
                fault=Phrase("is read before %{token} is waited for", token=late[0].token),
            )
        elif (writer := state.written.get(self._key(place))) is not None and not isinstance(
            writer, (nodes.CpAsync, nodes.TmaLoad)
        ):
            self._fault(
                s,
                "E1613",
                writer,
                place=str(place),
                fault=Phrase("is read with no barrier after other threads wrote it"),
            )
        state.read[self._key(place)] = s

    def _write(self, s: Any, state: _State) -> None:
        if self._is_of_cluster(s.to.name) and s.to.slot != Expr.of("cluster.rank"):
            self._fault(
                s, "E1613", s, place=str(s.to), fault=Phrase("is another CTA's: each writes its own, at [cluster.rank]")
            )
        reader = state.read.get(self._key(s.to))
        if reader is not None and not isinstance(s, nodes.TmaLoad):
            self._fault(
                s,
                "E1613",
                reader,
                place=str(s.to),
                fault=Phrase("is refilled with no barrier after other threads read it"),
            )
        state.written[self._key(s.to)] = s
        if isinstance(s, (nodes.CpAsync, nodes.TmaLoad)) and s.to.slot is None:
            state.waited -= {s.token}

    def _fault(self, s: Statement, code: str, other: Statement, **facts: Any) -> None:
        labels = (Label(other.span, Phrase("by this")),) if other.span else ()
        self.found.setdefault(
            (code, id(s), facts.get("place", facts.get("name"))), Diag(code, self.kernel.name, facts, s.span, labels)
        )


def _runs(s: nodes.For) -> bool:
    """Whether a loop surely runs, as a loop of numbers does."""
    count = (s.high - s.low).constant
    return count is not None and count > 0


ORDER_CHECKS = (
    check_barriers,
    check_mbarriers,
    check_tokens,
    check_memory,
    check_rings,
    check_handed_over,
    check_sends,
)
