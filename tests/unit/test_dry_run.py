"""The dry run of gpu text: what is dropped of the statements that order something is named, or changes nothing for a
reason that is stated, or is seen in the simulation."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.bench.units import SAMPLES, WARM, with_sizes
from tinyir import front
from tinyir.ir import gpu, plan
from tinyir.ir.gpu import dry, nodes
from tinyir.ir.gpu.across import Publish
from tinyir.ir.gpu.dry.run import Run
from tinyir.ir.gpu.dry.sizes import sizes_to_run
from tinyir.ir.gpu.dry.steps import inside, steps_of
from tinyir.ir.gpu.dry.threads import Threads, Unknown
from tinyir.ir.gpu.nodes import Kernel
from tinyir.ir.gpu.unwritten import WRITERS, check_unwritten, written_in
from tinyir.ir.gpu.verify import check_kernels
from tinyir.ir.gpu.walk import statements
from tinyir.ir.pipeline import STAGES
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import lower_to

from . import test_pingpong
from .emitted import played, simulated
from .families import CASES, family
from .stages import needs_host_compiler
from .statement_mutants import RULES, Mutant, every_mutant, is_for_values, is_harmless, with_kernels
from .turns import in_turn

# A chunk is the same part of every length: at the length that turns the loop over chunks of the kernel that combines
# them, its own walk does not come round. The windows of volumes are 27 steps at each size.
NEVER_ROUND = {"flash of a chunk", "hopper windows of volumes"}
# A CTA that has one tile stages one output, in the first of two slots.
ONE_SLOT = {("flash by a warp", "O.out")}
# All columns of a row of Q are one step, and so is all that has one scale.
ONE_STEP = {"warps with a mask", "warps with narrow rows", "words along columns", "words of a row"}
EACH = 4  # mutants of a rule, from as many cases as have them


NAMES = (*CASES, "pingpong")


@functools.cache
def module_of(name: str) -> gpu.Module:
    made = test_pingpong.in_turn(*test_pingpong.CASES["clusters"]) if name == "pingpong" else plan.parse(CASES[name])
    return to_gpu.lower(made)


def mutants(rule: str) -> Iterator[Mutant]:
    """Of a rule, from all cases in turn."""
    return in_turn([every_mutant(module_of(name), {rule: RULES[rule]}) for name in NAMES])


def missed(found: Iterator[Mutant]) -> list[str]:
    """What is neither named nor accounted for."""
    return [str(m) for m in found if not m.codes and not is_harmless(m) and not is_for_values(m)]


@pytest.mark.parametrize("rule", RULES)
def test_what_is_dropped_is_named(rule: str) -> None:
    some = [m for _, m in zip(range(EACH), mutants(rule))]
    assert some, "no case has such a statement"
    assert missed(iter(some)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_dropped_is_named(name: str) -> None:
    assert missed(every_mutant(module_of(name))) == []


def test_little_is_harmless() -> None:
    every = [m for name in NAMES for m in every_mutant(module_of(name))]
    counts = Counter(map(is_harmless, every)), Counter(map(is_for_values, every))
    assert counts[0][True] < 0.04 * len(every) and counts[1][True] < 0.12 * len(every), counts


VALUES = [
    ("hopper padded in pieces", "fill dropped"),
    pytest.param("ampere", "operand not loaded", marks=pytest.mark.slow),
    pytest.param("flash", "sum begun nowhere", marks=pytest.mark.slow),
    pytest.param("hopper words thrice", "sum begun in each step", marks=pytest.mark.slow),
]


@needs_host_compiler
@pytest.mark.parametrize(("name", "rule"), VALUES)
def test_what_is_for_values_is_seen_in_the_simulation(name: str, rule: str) -> None:
    for found in every_mutant(module_of(name), {rule: RULES[rule]}):
        if is_for_values(found) and not found.codes:
            code, arrays, near = to_cu.lower(found.module), family(name).inputs[0], family(name).tolerance
            there, here = simulated(code, arrays), played(code, arrays)
            assert any(not np.allclose(there[n], here[n], rtol=near, atol=near) for n in here), str(found)


# --- single faults, each in few words

HEAD = """tinyir 1.2 gpu

model m
  in  X           : fp32[N]
  out Y           : fp32[N]

program m

region act
  in  X           : fp32[N]
  out Y           : fp32[N]
  for i0: N
    %%y             = relu(X[i0])
  yield Y[i0] = %%y

plan act : sm90 map
  algo       flat
  tile       [128]
  micro      [1]
  threads    [128]
  stages     1
  bind       i0.o -> cta.x, i0.i -> thread.x
  predicate  [i0]

kernel act : sm90 grid [%s] block [%d]%s
  let i = 128*cta.x + thread.x
  if thread.x < 128 and i < N
    store Y[i] = relu(X[i])
"""


def codes_of(body: str, block: int = 128, cluster: int = 1) -> set[str]:
    grid = "floor((N + 127)/128)"
    head = HEAD % ((f"{cluster}*{grid}", block, f" cluster [{cluster}]") if cluster > 1 else (grid, block, ""))
    text = head + "".join(f"  {line}\n" for line in body.strip().splitlines())
    module = gpu.parse(text)
    assert [d.code for d in check_kernels(module)] == []
    return {d.code for d in dry.check_dry_runs(module)}


def test_a_barrier_of_some_ctas_does_not_end() -> None:
    guarded = "if cluster.rank = 0\n  barrier cluster"
    assert codes_of(guarded, cluster=2) == {"E1621"}
    assert codes_of("barrier cluster", cluster=2) == set()


def test_a_phase_that_may_be_gone_before_all_have_looked_is_named() -> None:
    """The first role goes on by itself, unless it waits for the second."""
    turns = """
mbarrier ready count 1
mbarrier seen count 1
fence mbarrier_init
barrier cta
role first warpgroups 0..1
  cursor f ring 1
  for k in 0..3
    arrive ready
    {waits}
    advance f
role second warpgroups 1..2
  cursor s ring 1
  for k in 0..3
    wait ready phase s.phase
    arrive seen
    advance s
"""
    assert codes_of(turns.format(waits="let a = 0"), 256) == {"E1621"}
    assert codes_of(turns.format(waits="wait seen phase f.phase"), 256) == set()


def test_one_thread_tells_of_what_the_others_did_before_they_met() -> None:
    """Of words several threads read a slot; where the last turn is the only one, they meet behind the loop alone."""
    (told,) = (
        m
        for m in every_mutant(module_of("hopper words"), {"barrier dropped": RULES["barrier dropped"]})
        if m.at + 1 < len(m.beside)
        and not any(isinstance(s, nodes.If) for s in m.path)
        and isinstance(m.beside[m.at + 1], nodes.Arrive)
    )
    assert told.codes == {"E1623"}


@pytest.mark.parametrize(
    ("stores", "tells", "code"),
    [
        ("if warpgroup.thread = 0", "if warpgroup.thread = 0", ""),
        ("if warpgroup.thread = 0", "if warpgroup.thread = 32", "E1622"),  # of what it has not done
        ("if warpgroup.thread < 128", "if warpgroup.thread = 0", "E1622"),  # before the others were there
        ("if warpgroup.thread < 128", "barrier warpgroup\n  if warpgroup.thread = 0", ""),
    ],
)
def test_what_threads_hand_to_another_role_is_told_by_who_did_it(stores: str, tells: str, code: str) -> None:
    handed = f"""
shared x : fp32[128]
mbarrier full count 1
fence mbarrier_init
barrier cta
role writer warpgroups 0..1
  {stores}
    store x[warpgroup.thread] = 1.0 : fp32
  {tells}
    arrive full
role reader warpgroups 1..2
  wait full phase 0
  reg r : fp32[1]
  r[0] = x[warpgroup.thread]
"""
    assert codes_of(handed, 256) == ({code} if code else set())


@pytest.mark.parametrize(("barrier", "code"), [("barrier warpgroup", "E1613"), ("barrier 1 threads 256", "")])
def test_warpgroups_of_a_role_meet_at_its_barrier(barrier: str, code: str) -> None:
    text = HEAD % ("floor((N + 127)/128)", 256, "")
    text += f"""\
  shared x : fp32[256]
  role both warpgroups 0..2
    store x[128*warpgroup.index + warpgroup.thread] = 1.0 : fp32
    {barrier}
    reg r : fp32[1]
    r[0] = x[128 - 128*warpgroup.index + warpgroup.thread]
"""
    assert {d.code for d in check_kernels(gpu.parse(text))} == ({code} if code else set())


def test_a_slot_is_written_again_behind_the_readers_of_another_role() -> None:
    handed = """
shared x : fp32[128]
mbarrier full count 1
mbarrier empty count 1
fence mbarrier_init
barrier cta
role writer warpgroups 0..1
  cursor w ring 1 phase 1
  for k in 0..3
    {waits}
    store x[warpgroup.thread] = 1.0 : fp32
    barrier warpgroup
    if warpgroup.thread = 0
      arrive full
    advance w
role reader warpgroups 1..2
  cursor r ring 1
  for k in 0..3
    wait full phase r.phase
    reg v : fp32[1]
    v[0] = x[warpgroup.thread]
    barrier warpgroup
    if warpgroup.thread = 0
      arrive empty
    advance r
"""
    assert codes_of(handed.format(waits="wait empty phase w.phase"), 256) == set()
    assert codes_of(handed.format(waits="let a = 0"), 256) & {"E1621", "E1623"}


# --- how far a run goes


@pytest.mark.parametrize("name", NAMES)
def test_loops_turn_often_enough_and_not_much_more(name: str) -> None:
    module = module_of(name)
    model = module.plans.program.model
    for kernel in module.kernels:
        steps = steps_of(kernel)
        tried = sizes_to_run(kernel, steps, tuple(map(model.range_of, model.symbols())), model.shape_sets)
        assert tried or not steps
        for sizes in tried:
            run = Run(kernel, steps, sizes)
            run.whole()
            assert run.steps <= 2000
            if sizes == tried[0] and model.symbols() and name not in NEVER_ROUND:
                assert has_come_round(kernel, run), sizes


def has_come_round(kernel: Kernel, run: Run) -> bool:
    """Whether every ring of mbarriers that loads fill has completed one phase more than once in all its slots."""
    loaded = {s.statement.on.name for s in inside(run.way) if isinstance(s.statement, nodes.TmaLoad)}
    rings = {name: run.arrays[name].ring for name in loaded}
    return all(sum(len(p.complete) for p in run.phases.values() if p.key[1] == n) > ring for n, ring in rings.items())


class Watched(Run):
    """A run that notes which slots of rings threads name, and ends when these are all."""

    def __init__(self, kernel: Kernel, sizes: dict[str, int], cluster: tuple[int, ...], left: dict[str, set[int]]):
        super().__init__(kernel, steps_of(kernel), sizes, cluster, most=100000)
        self.left = left

    def party_of(self, cta: int, number: int) -> Threads:
        return Watching(self, cta, number)


class Watching(Threads):
    def _slots(self, place: nodes.Place, at: Any) -> list[int | None]:
        found = super()._slots(place, at)
        if place.name in self.run.left:
            self.run.left[place.name].difference_update(found)
            if not any(self.run.left.values()):
                raise Unknown
        return found


@pytest.mark.parametrize("name", CASES)
def test_inputs_of_a_case_reach_every_slot(name: str) -> None:
    """What is wrong with a slot is seen by no simulation whose sizes are too small to come to it."""
    module = module_of(name)
    sets = [dict(s.sizes) for s in module.plans.program.model.shape_sets] or [{}]
    for kernel in module.kernels:
        assert not slots_left(kernel, sets).keys() - {ring for case, ring in ONE_SLOT if case == name}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_products_have_a_second_step(name: str) -> None:
    """What is begun anew in each step is seen by no simulation in which there is one."""
    loops = [s for kernel in module_of(name).kernels for s in statements(kernel.body) if isinstance(s, nodes.For)]
    adding = [s for s in loops if any(isinstance(i, (nodes.Wgmma, nodes.Mma)) for i in statements(s.body))]
    once = [s.name for s in adding if (rest := (s.high - s.low - s.step).constant) is not None and rest <= 0]
    assert bool(once) is (name in ONE_STEP), once


def slots_left(kernel: Kernel, sets: list[dict[str, int]]) -> dict[str, set[int]]:
    """The slots of rings in shared memory that neither the first nor the last cluster names, by ring. A loop whose
    numbers are drawn goes through its own."""
    every = list(statements(kernel.body))
    drawn = {s.via for s in every if isinstance(s, nodes.For)}
    rings = [s for s in every if isinstance(s, nodes.Shared) and s.ring > 1 and s.name not in drawn]
    left = {s.name: set(range(s.ring)) for s in rings}
    for sizes in sets:
        for cluster in ((), dry._last_cluster(kernel, sizes)):
            if any(left.values()):
                with contextlib.suppress(Unknown):
                    Watched(kernel, sizes, cluster, left).whole()
    return {ring: slots for ring, slots in left.items() if slots}


def test_slots_that_no_tile_comes_to_are_counted() -> None:
    """Three tiles for two CTAs, and two: the second output of each warpgroup is staged in a slot of its own."""
    (kernel,) = module_of("hopper windows").kernels
    assert slots_left(kernel, [{"N": 6}]) == {}
    assert slots_left(kernel, [{"N": 3}]) == {"Y.out": {1, 3}}


def test_a_run_that_would_be_long_says_nothing_of_what_comes_late() -> None:
    turns = "for k in 0..{}\n  barrier cta\nbarrier cluster"
    assert codes_of(turns.format(10), cluster=2) == codes_of(turns.format(1 << 20), cluster=2) == set()
    guarded = "for k in 0..{}\n  barrier cta\nif cluster.rank = 0\n  barrier cluster"
    assert codes_of(guarded.format(10), cluster=2) == {"E1621"}
    assert codes_of(guarded.format(1 << 20), cluster=2) == set()


# --- what nobody stores


@pytest.mark.parametrize("name", NAMES)
def test_a_launch_without_the_stores_of_a_tensor_is_named(name: str) -> None:
    """Each tensor in turn; what only the launch itself reads is a workspace, and is missed there."""
    module = module_of(name)
    assert [*check_unwritten(module)] == []
    tensors = {t.name for t in (*module.buffers, *(t for r in module.plans.program.program.regions for t in r.outputs))}
    for tensor in {n for k in module.kernels for n in written_in(k)} & tensors:
        kernels = tuple(replace(k, body=tuple(without_stores(k.body, k, tensor))) for k in module.kernels)
        faults = [*check_unwritten(with_kernels(module, kernels))]
        assert {d.code for d in faults} == {"E1629"} and tensor in {d.facts["tensor"] for d in faults}


def without_stores(body: tuple[Any, ...], kernel: Kernel, tensor: str) -> Iterator[Any]:
    for s in body:
        if isinstance(s, (*WRITERS, Publish)):
            if tensor in written_in(replace(kernel, body=(*declared(kernel), s))):
                continue
        elif getattr(s, "body", ()):
            parts = [part for part in ("body", "otherwise") if hasattr(s, part)]
            s = replace(s, **{part: tuple(without_stores(getattr(s, part), kernel, tensor)) for part in parts})
        yield s


def declared(kernel: Kernel) -> tuple[Any, ...]:
    return tuple(s for s in statements(kernel.body) if isinstance(s, (nodes.TensorMap, nodes.Pick)))


def test_a_loop_that_draws_many_numbers_turns_a_few_times() -> None:
    """As often as its rings come round, and for the last number: of 160 tiles, 28 of which a CTA may draw."""
    kernel, steps = attention_that_draws()
    run = Run(kernel, steps, {})
    run.whole()
    assert run.steps < 1000


def attention_that_draws() -> tuple[Kernel, Any]:
    sample, _, sizes = WARM["one attention"]
    module: Any = front.read(with_sizes((SAMPLES / sample / f"{sample}.json").read_text(encoding="utf-8"), sizes))
    for stage in STAGES[1 : STAGES.index("gpu") + 1]:
        module = lower_to(stage, module, "sm90")
    kernel = module.kernels[-1]
    assert any(isinstance(s, nodes.For) and s.via for s in statements(kernel.body))
    return kernel, steps_of(kernel)
