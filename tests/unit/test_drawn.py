"""Tiles that CTAs draw of a counter: right in every order of CTAs and at every run, and faults of which a tile would
have two turns or none, or of which a warp would not hear, are named; by the verifier of certificates, too."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tinyir.certificate import Draft
from tinyir.ir import gpu, manifest, plan
from tinyir.kernels import FAMILIES
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.program import Program
from tinyir.sim.launch import SimDevice
from tinyir.verifier import Verifier

from .checked import check_gpu, check_plan
from .emitted import lowered, played
from .stages import needs_host_compiler
from .test_flash import ALGO, FP16, arrays_of, assert_equals_playback, attention, regions_of

CTAS = 3
CASES = {
    "causal": {"causal": True, "s": 300, "t": 300, "d": 64},
    "more CTAs than tiles": {"s": 60, "t": 70, "d": 64, "heads": 2},
    "a window": {"causal": True, "window": 100, "s": 400, "t": 400, "d": 64, "heads": 2},
}


def drawn(**model: object) -> plan.Module:
    """Attention whose tiles are drawn by a few CTAs."""
    module = to_plan.lower(regions_of(attention(**{**FP16, **model})))
    one = module.plans[0]
    assert one.algo == ALGO and one.order is not None
    own = replace(one, persistent=CTAS, threads=(), order=plan.Order("drawn", one.order.width))
    return replace(module, plans=(own, *module.plans[1:]))


@needs_host_compiler
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_it_equals_playback_in_every_order(name: str, seed: int) -> None:
    module = drawn(**CASES[name])
    assert_equals_playback(module, arrays_of(module.program, {}, seed), seed)


@needs_host_compiler
def test_every_run_draws_anew() -> None:
    module = drawn(**CASES["causal"])
    arrays, (_, code) = arrays_of(module.program, {}, 7), lowered(module)
    program = Program(SimDevice(1), manifest.show(code), code, {})
    wanted = played(code, arrays)["O"].astype(np.float64)
    for _ in range(3):
        program.upload(arrays)
        program.run()
        np.testing.assert_allclose(program.outputs()["O"].astype(np.float64), wanted, rtol=3e-3, atol=3e-3)


@pytest.mark.parametrize(
    ("model", "is_drawn"),
    [
        ({"causal": True, "d": 64}, True),
        ({"causal": True, "d": 64, "s": 1024, "t": 1024, "heads": 64}, False),  # short tiles
        ({"causal": True, "d": 128, "s": 1024, "t": 1024}, True),
        ({"causal": True, "window": 500, "d": 128}, True),
        ({"d": 128}, False),  # all rows see as many columns
        ({"causal": True, "d": 256}, False),  # where it is slower
        ({"causal": True, "d": 64, "heads": 4}, False),  # no tile is left to draw
    ],
)
def test_tiles_are_drawn_where_rows_differ_and_ctas_have_several(model: dict[str, object], is_drawn: bool) -> None:
    module = to_plan.lower(regions_of(attention(**{"s": 2048, "t": 2048, "heads": 32, **FP16, **model})))
    assert module.plans[0].algo == ALGO
    assert (module.plans[0].order.by == "drawn") == is_drawn


def test_a_counter_is_a_launch_and_a_word_more() -> None:
    module = drawn(**CASES["causal"])
    assert [d.code for d in check_plan(module) if d.is_error] == []
    kernels = to_gpu.lower(module).kernels
    assert [k.name for k in kernels if isinstance(k, gpu.nodes.Kernel)][:2] == [
        f"{module.plans[0].name}.start",
        module.plans[0].name,
    ]


def test_one_cta_a_tile_draws_nothing() -> None:
    module = drawn(**CASES["causal"])
    alone = replace(module, plans=(replace(module.plans[0], persistent=0), *module.plans[1:]))
    assert "E1581" in {d.code for d in check_plan(alone) if d.is_error}


@pytest.mark.parametrize("algo", [f.algo for f in FAMILIES if "order" in f.fields and f.algo != ALGO])
def test_families_that_draw_nothing_say_so(algo: str) -> None:
    family = next(f for f in FAMILIES if f.algo == algo)
    for text in family.cases().values():
        module = plan.parse(text)
        *others, last = module.plans
        edited = replace(module, plans=(*others, replace(last, order=plan.Order("drawn", 4))))
        assert {"E1525", "E1581", "E1524"} & {d.code for d in check_plan(edited) if d.is_error}, text


# --- text

FOR = r"for tile in cta.x..tiles step 3 drawn of \S+ via turn full turn.full empty turn.empty"
TAKEN = "for tile in cta.x..tiles step 3 drawn via turn full turn.full empty turn.empty"
FAULTS = [  # what is exchanged, for what, what is said, whether the verifier of certificates sees it too
    (r"step 3 drawn of", "step 2 drawn of", "E1680", True),
    (r"cta.x..tiles step 3 drawn of", "thread.x..tiles step 3 drawn of", "E1680", True),
    (r"cta.x..tiles step 3 drawn of", "0..tiles step 3 drawn of", "E1680", True),
    (r"(?<=tiles) step 3 drawn via", " - 1 step 3 drawn via", "E1680", True),
    (r"drawn via turn full", "drawn of %s via turn full", "E1680", True),
    (r"drawn of \S+ via", "drawn via", "E1680", True),
    (FOR, "for tile in cta.x..tiles step 3", "E1680", True),
    (TAKEN, "for tile in cta.x..tiles step 3", "E1680", True),
    (r"    if warpgroup.thread = 0\n(?=      cursor q.next)", "    if warpgroup.thread < 2\n", "E1684", True),
    (r"mbarrier turn.empty ring 2 count \d+", "mbarrier turn.empty ring 2 count 7", "E1680", True),
    (r"mbarrier turn.full ring 2 count 1", "mbarrier turn.full ring 2 count 2", "E1680", True),
    (r"shared turn : i32\[1\] ring 2", "shared turn : i32[1] ring 4", "E1680", True),
    (r"shared turn : i32\[1\] ring 2", "shared turn : i64[1] ring 2", "E1680", True),
    (r"(      arrive empty.k\S+\n)", r"\1      arrive turn.empty[0]\n", "E1680", True),
    (r"    store (\S+turn)\[0\] = 0 : u32", r"    store \1[0] = 1 : u32", "E1680", True),
    (
        r"for tile in cta.x..tiles step 3 drawn via",
        "for tile in cta.x..tiles step 3 unroll 2 drawn via",
        "E1680",
        False,
    ),
    (r"(?<=mbarrier_init\n)  barrier cta\n", "", "E1616", False),
]


def text_of() -> str:
    module = drawn(**CASES["causal"])
    return gpu.show(to_gpu.lower(replace(module, plans=module.plans[:1])))


def is_shown(text: str) -> bool:
    """Whether the verifier of certificates shows that drawn numbers have one turn each."""
    checked = Verifier(Draft(gpu.parse(text)).show(""), is_draft=True)
    return all(what != "each drawn number has one turn" for v in checked.verdicts() for _, what in v.listed)


@pytest.mark.parametrize(("before", "after", "code", "is_seen"), FAULTS)
def test_planted_faults_are_caught(before: str, after: str, code: str, is_seen: bool) -> None:
    text = text_of()
    after = after % re.search(r"drawn of (\S+)", text)[1] if "%s" in after else after
    edited, count = re.subn(before, after, text, count=1)
    assert count == 1
    found = {d.code for d in check_gpu(gpu.parse(edited)) if d.is_error}
    assert code in found, found
    assert not is_seen or not is_shown(edited)


def test_the_text_as_it_is_written_holds() -> None:
    text = text_of()
    assert gpu.show(gpu.parse(text)) == text
    assert [d.code for d in check_gpu(gpu.parse(text)) if d.is_error] == []
    assert is_shown(text)
    assert "atomicAdd(" in manifest.show(to_cu.lower(gpu.parse(text)))
