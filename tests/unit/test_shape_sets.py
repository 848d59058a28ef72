"""Shape sets: plans for each, the right ones at every size, and the same whatever the order of the sets."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir.front
from tinyir.ir import plan
from tinyir.kit.diag import Refused
from tinyir.lower import language_of, lower_to
from tinyir.runtime.program import chosen_of
from tinyir.runtime.sets import order_of

from .fake_cuda import Machine, machine  # noqa: F401

SETS = {"decode": {"M": 1}, "middle": {"M": 64}, "prefill": {"M": 4096}}
MODEL = {
    "name": "layer",
    "signature": {
        "inputs": [{"tensor": "x"}, {"tensor": "w", "role": "param", "storage": "const_pool"}],
        "outputs": [{"tensor": "y"}],
    },
    "tensors": {
        "x": {"dtype": "fp16", "shape": ["M", 256]},
        "w": {"dtype": "fp16", "shape": [256, 512]},
        "y": {"dtype": "fp16", "shape": ["M", 512]},
    },
    "graph": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}],
    "shape_sets": SETS,
}
W = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float16)


def compiled(device: str, **how: Any) -> Any:
    return tinyir.compile(json.dumps(MODEL), device=device, params={"w": W}, **how)


def tiles(program: Any) -> list[Any]:
    """Of each text what it was planned for, and how it tiles."""
    sessions = [program._session, *program._session.others]
    return [([*s.sets], s.text.split("\n// plan ")[1].split("\n")[0]) for s in sessions]


def test_each_set_has_plans_of_its_own() -> None:
    with compiled("cpu") as program:
        found = tiles(program)
    assert [sizes for sizes, _ in found] == [[{"M": 1}], [{"M": 64}], [{"M": 4096}]]
    assert len({line for _, line in found}) == 3


def test_sets_that_are_planned_alike_are_one() -> None:
    with compiled("cpu", sets={"a": {"M": 64}, "b": {"M": 64}, "c": {"M": 1}}) as program:
        assert [s for s, _ in tiles(program)] == [[{"M": 64}, {"M": 64}], [{"M": 1}]]


def test_the_order_of_the_sets_changes_nothing() -> None:
    found = []
    for order in itertools.permutations(SETS):
        with compiled("cpu", sets={name: SETS[name] for name in order}) as program:
            found.append(tiles(program))
    assert all(one == found[0] for one in found)


def test_the_nearest_set_is_asked_first() -> None:
    sets = list(SETS.values())
    draw = np.random.default_rng(1)
    for size in [0, 1, 2, 11, 12, 63, 500, 511, 600, 5000, *draw.integers(0, 1 << 20, 200).tolist()]:
        first = order_of(sets, {"M": size})[0]
        ratios = [max(size + 1, s["M"] + 1) / min(size + 1, s["M"] + 1) for s in sets]
        assert ratios[first] <= min(ratios) * (1 + 1e-6)
    twice = [{"M": 3}, {"M": 15}]
    assert order_of(twice, {"M": 7}) == [0, 1] and order_of(twice[::-1], {"M": 7}) == [1, 0]


def test_a_call_runs_the_plans_of_its_set(machine: Machine) -> None:  # noqa: F811
    with compiled("cuda") as program:
        sessions = [program._session, *program._session.others]
        draw = np.random.default_rng(2)
        for rows in [1, 3, 20, 64, 300, 5000, *draw.integers(1, 6000, 20).tolist()]:
            owner = program._session.owner_of({"M": rows})
            assert owner is sessions[order_of([s.sets[0] for s in sessions], {"M": rows})[0]]
        for rows in (1, 4096):
            assert program(np.zeros((rows, 256), np.float16))["y"].shape == (rows, 512)
        assert [len(s._programs) for s in sessions] == [1, 0, 1]
        pools = {s._pool["w"].address for s in sessions}
        assert len(pools) == 1  # the weights are there once
    assert machine.living == set()


def test_each_of_many_sizes_runs_the_plans_of_its_nearest_set(machine: Machine) -> None:  # noqa: F811
    """Three sets of two symbols, 200 sizes."""
    model = json.loads(json.dumps(MODEL))
    model["tensors"]["x"]["shape"], model["tensors"]["y"]["shape"] = ["B", "L", 256], ["B", "L", 512]
    model["shape_sets"] = {"one": {"B": 1, "L": 1}, "long": {"B": 1, "L": 4096}, "wide": {"B": 512, "L": 8}}
    sets = sorted(model["shape_sets"].values(), key=lambda s: [*s.values()])
    draw = np.random.default_rng(5)
    with tinyir.compile(json.dumps(model), device="cuda", params={"w": W}) as program:
        assert [len(s.sets) for s in (program._session, *program._session.others)] == [2, 1]  # two are planned alike
        for b, n in np.exp2(draw.uniform(0, 12, (200, 2))).astype(int).tolist():
            owner = program._session.owner_of({"B": b, "L": n})
            apart = {
                tuple(s.values()): abs(np.log2((b + 1) / (s["B"] + 1))) + abs(np.log2((n + 1) / (s["L"] + 1)))
                for s in sets
            }
            assert min(apart[tuple(s.values())] for s in owner.sets) <= min(apart.values()) + 1e-6


def random_program(draw: np.random.Generator) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A chain of products and of what is between them, on [B, L, width], and its weights."""
    tensors: dict[str, Any] = {"x": {"dtype": "fp16", "shape": ["B", "L", 64]}}
    graph: list[Any] = []
    weights: dict[str, np.ndarray] = {}
    last, width = "x", 64
    for n in range(int(draw.integers(2, 5))):
        kind, name = draw.choice(["MatMul", "relu", "Softmax", "tanh"]) if n else "MatMul", f"v{n}"
        if kind == "MatMul":
            wide = int(draw.choice([32, 48, 96, 256]))
            weights[f"w{n}"] = (draw.standard_normal((width, wide)) * 0.1).astype(np.float16)
            tensors[f"w{n}"] = {"dtype": "fp16", "shape": [width, wide]}
            graph.append({"op": "MatMul", "inputs": [last, f"w{n}"], "outputs": [name]})
            width = wide
        elif kind == "Softmax":
            graph.append({"op": "Softmax", "inputs": [last], "outputs": [name], "attrs": {"axis": -1}})
        else:
            graph.append({"op": "Elementwise", "fn": str(kind), "inputs": [last], "outputs": [name]})
        last = name
        tensors[last] = {"dtype": "fp16", "shape": ["B", "L", width]}
    given = [{"tensor": "x"}, *({"tensor": w, "role": "param", "storage": "const_pool"} for w in weights)]
    signature = {"inputs": given, "outputs": [{"tensor": last}]}
    return {"name": "random", "signature": signature, "tensors": tensors, "graph": graph}, weights


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_run_the_plans_of_the_nearest_set(machine: Machine, seed: int) -> None:  # noqa: F811
    """Three sets, 200 sizes: what runs has the plans that the filter makes for the nearest set."""
    draw = np.random.default_rng(seed)
    model, weights = random_program(draw)
    sets = {f"s{n}": dict(zip("BL", np.exp2(draw.uniform(0, 11, 2)).astype(int).tolist())) for n in range(3)}
    known = sorted(sets.values(), key=lambda s: [*s.values()])
    names = {tuple(sizes.values()): name for name, sizes in sets.items()}
    grouped = region_of({**model, "shape_sets": sets})
    plans = {name: lower_to("plan", grouped, "sm90", None, shapes=name).plans for name in sets}
    with tinyir.compile(json.dumps(model), device="cuda", arch="sm90", params=weights, sets=sets) as program:
        for b, n in np.exp2(draw.uniform(0, 12, (200, 2))).astype(int).tolist():
            owner = program._session.owner_of({"B": b, "L": n})
            nearest = next(known[i] for i in order_of(known, {"B": b, "L": n}) if takes(program, known[i], b, n))
            assert nearest in owner.sets
            stated = [f" {p.algo}: tile [{', '.join(map(str, p.tile))}]" for p in plans[names[tuple(nearest.values())]]]
            assert [x for x in stated if x not in owner.text] == []


def takes(program: Any, sizes: dict[str, int], b: int, n: int) -> bool:
    """Whether the launches that were planned for some sizes take others: a grid has its limits."""
    session = next(s for s in (program._session, *program._session.others) if sizes in s.sets)
    try:
        chosen_of(session.module, {"B": b, "L": n}, session._device)
    except Refused:
        return False
    return True


def region_of(model: dict[str, Any]) -> Any:
    module = tinyir.front.read(json.dumps(model))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90", None)
    return module


def test_a_set_whose_launches_do_not_allow_the_sizes_is_passed_over(machine: Machine) -> None:  # noqa: F811
    with compiled("cuda") as program:
        first = program._session
        refuses = tinyir.api.replace(first.module.launches[0], arch="sm100")
        first.module = tinyir.api.replace(first.module, launches=(refuses, *first.module.launches[1:]))
        assert program._session.owner_of({"M": 1}) is program._session.others[0]
        for other in program._session.others:
            other.module = first.module
        with pytest.raises(Refused) as fault:
            program._session.owner_of({"M": 2})
        assert {d.code for d in fault.value.diags} == {"E1719"}


def test_a_saved_program_keeps_all_sets(machine: Machine, tmp_path: Path) -> None:  # noqa: F811
    with compiled("cuda") as program:
        program.save(tmp_path / "p")
        wanted = tiles(program)
    with tinyir.load(tmp_path / "p", device="cuda") as loaded:
        assert tiles(loaded) == wanted
        assert [s.cubins for s in loaded._session.others] != [("", {})] * 2


def test_an_invariant_program_has_one_plan_for_all() -> None:
    with compiled("cpu", invariant=True) as program:
        assert program._session.others == []


def test_the_filter_plans_for_a_set_by_its_name(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tinyir.cmd.tinyc import main

    model = tmp_path / "layer.json"
    model.write_text(json.dumps(MODEL))
    found = {}
    for name in SETS:
        assert main(["--emit=plan", "--shapes", name, str(model)]) == 0
        found[name] = plan.parse(capfd.readouterr().out)
        assert language_of("plan").check(found[name]) == []
        assert [s.name for s in found[name].program.model.shape_sets] == list(SETS)
    assert len({p.plans[0].tile for p in found.values()}) == 3
    assert main(["--emit=plan", "--shapes", "none", str(model)]) == 1
    assert "E1713" in capfd.readouterr().err
