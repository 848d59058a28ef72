"""The analysis report: what it says of regions against an enumeration of their points, its JSON against its schema, and
that every text from region on has one."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tinyir.analysis.region_edges import TILE, Edge, edges_of, verdict_of
from tinyir.analysis.report import as_json, report_of, show_report
from tinyir.ir import gpu, region
from tinyir.ir.body import Body, Gather, Read, Reduce, Ref, Scan, Scatter, Select, operands_of
from tinyir.ir.present import axes_of_values
from tinyir.ir.region import Region
from tinyir.lower import lower_to

from .json_schema import faults_of

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())
Needs = dict[tuple[int, ...], set[tuple[int, ...]]]  # element -> points

HEAD = """tinyir 1.0 region

model m
{signature}
shapes default {{{shapes}}}

program m

region r
{tensors}
  for {axes}
{body}
"""


def module_of(inputs: Mapping[str, str], output: str, axes: str, sizes: Mapping[str, int], *body: str) -> region.Module:
    """A module of one region that reads `inputs` and writes `Y`."""
    lines = [*(f"  in  {n} : {kind}" for n, kind in inputs.items()), f"  out Y : {output}"]
    shapes = ", ".join(f"{n}={size}" for n, size in sizes.items())
    text = HEAD.format(
        signature="\n".join(lines),
        tensors="\n".join(lines),
        shapes=shapes,
        axes=axes,
        body="\n".join(f"  {'' if line.startswith('yield') else '  '}{line}" for line in body),
    )
    module = region.parse(text)
    assert [d for d in region.check(module) if d.is_error] == []
    return module


MODULES: dict[str, region.Module] = {
    "blur": module_of(
        {"X": "fp32[H, W]"},
        "fp32[H, W]",
        "i0: H, i1: W",
        {"H": 19, "W": 21},
        "%t = reduce sum (k0: 3, k1: 5) : fp32 { X[i0 + k0 - 1, i1 + k1 - 2] where 0 <= i0 + k0 - 1 < H and "
        "0 <= i1 + k1 - 2 < W else 0.0 }",
        "yield Y[i0, i1] = %t",
    ),
    "strided": module_of(
        {"X": "fp16[C, 2*H + 1]", "F": "fp16[N, C, 3]"},
        "fp16[N, H]",
        "i0: N, i1: H",
        {"C": 3, "H": 37, "N": 2},
        "%t = reduce sum (k0: C, k1: 3) : fp32 { mul(X[k0, 2*i1 + k1], F[i0, k0, k1]) : fp32 }",
        "yield Y[i0, i1] = cast(%t) : fp16",
    ),
    "apart": module_of(  # neighbours share nothing: the stride is the window
        {"X": "fp32[2*H, 2*W]"},
        "fp32[H, W]",
        "i0: H, i1: W",
        {"H": 9, "W": 11},
        "%t = reduce max (k0: 2, k1: 2) : fp32 { X[2*i0 + k0, 2*i1 + k1] }",
        "yield Y[i0, i1] = %t",
    ),
    "rows": module_of(
        {"X": "fp32[R, C]", "g": "fp32[C]"},
        "fp32[R, C]",
        "i0: R, i1: C",
        {"R": 4, "C": 6},
        "%m = reduce max (i1) : fp32 { X[i0, i1] }",
        "%d = sub(X[i0, i1], broadcast_in_dim(%m, dims=[0]))",
        "%y = mul(%d, broadcast_in_dim(g[i1], dims=[1]))",
        "yield Y[i0, i1] = %y",
    ),
    "prefix": module_of(
        {"X": "fp32[R, C]"},
        "fp32[R, C]",
        "i0: R, i1: C",
        {"R": 3, "C": 20},
        "%y = scan sum (i1) : fp32 { X[i0, i1] }",
        "yield Y[i0, i1] = %y",
    ),
    "suffix": module_of(
        {"X": "fp32[R, C]"},
        "fp32[R, C]",
        "i0: R, i1: C",
        {"R": 3, "C": 20},
        "%y = scan sum reverse exclusive (i1) : fp32 { X[i0, i1] }",
        "yield Y[i0, i1] = %y",
    ),
    "pairs": module_of(  # a value at several points of itself
        {"X": "fp32[N]"},
        "fp32[N]",
        "i0: N",
        {"N": 50},
        "%x = relu(X[i0])",
        "%y = add(%x, %x[i0 - 2] where 2 <= i0 else 0.0)",
        "yield Y[i0] = %y",
    ),
    "turned": module_of(
        {"X": "fp32[N, M]"},
        "fp32[M, N]",
        "i0: M, i1: N",
        {"M": 5, "N": 7},
        "yield Y[i0, i1] = X[i1, i0]",
    ),
    "folded": module_of(  # a row taken apart by a floor
        {"X": "fp32[4*N]"},
        "fp32[N, 4]",
        "i0: N, i1: 4",
        {"N": 9},
        "yield Y[i0, i1] = X[4*i0 + i1]",
    ),
    "doubled": module_of(
        {"X": "fp32[N]"},
        "fp32[2*N]",
        "i0: 2*N",
        {"N": 9},
        "yield Y[i0] = X[floor(i0/2)]",
    ),
}


def values_of(module: region.Module) -> dict[str, int]:
    return dict(module.model.shape_sets[0].sizes)


def needs_by_hand(one: Region, edge: Edge, sizes: Mapping[str, int]) -> Needs:
    """Which points of the reader need which elements, point by point."""
    axes_of = axes_of_values(one)
    extents = {a.name: a.size.evaluate(sizes) for a in one.iters}
    if edge.reader.startswith("%"):
        body, guard = one.let(edge.reader[1:]).expr, ()
    else:
        item = next(y for y in one.yields if y.output == edge.reader)
        body, guard = item.expr, item.guard
    found: Needs = defaultdict(set)
    for point in itertools.product(*(range(size.evaluate(sizes)) for _, size in edge.axes)):
        env = {**sizes, **dict(zip((n for n, _ in edge.axes), point))}
        if all(b.holds(env) for b in guard):
            for source, element in elements_of(body, env, extents, axes_of):
                if source == edge.source:
                    found[element].add(point)
    return found


def elements_of(
    body: Body, env: Mapping[str, int], extents: Mapping[str, int], axes_of: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The elements that an expression reads at one point."""

    def inner(part: Body, **more: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        return elements_of(part, {**env, **more}, extents, axes_of)

    if isinstance(body, Read):
        yield body.tensor, tuple(e.evaluate(env) for e in body.index)
    elif isinstance(body, Ref):
        index = [env[a] for a in axes_of[body.name]] if body.index is None else [e.evaluate(env) for e in body.index]
        yield f"%{body.name}", tuple(index)
    elif isinstance(body, Select):
        if all(b.holds(env) for b in body.guard):
            yield from inner(body.then)
        yield from inner(body.other)
    elif isinstance(body, Reduce):
        ranges = [range(extents[a.name] if a.size is None else a.size.evaluate(env)) for a in body.axes]
        for places in itertools.product(*ranges):
            yield from inner(body.body, **dict(zip((a.name for a in body.axes), places)))
    elif isinstance(body, Scan):
        here, end = env[body.axis], extents[body.axis]
        whole = range(here, end) if body.reverse else range(here + 1)
        for place in whole:
            if not (body.exclusive and place == here):
                yield from inner(body.body, **{body.axis: place})
    else:
        assert not isinstance(body, (Gather, Scatter))
        for part in operands_of(body):
            yield from inner(part)


def edges() -> Iterator[tuple[str, region.Module, Edge]]:
    for name, module in MODULES.items():
        for edge in edges_of(module.program.regions[0]):
            yield name, module, edge


EVERY = [pytest.param(m, e, id=f"{n}:{e.source}->{e.reader}") for n, m, e in edges()]


@pytest.mark.parametrize(("module", "edge"), EVERY)
def test_what_can_be_computed_once_is_needed_once(module: region.Module, edge: Edge) -> None:
    sizes = values_of(module)
    verdict = verdict_of(edge, module.model, sizes)
    assert verdict.at is not None
    needs = needs_by_hand(module.program.regions[0], edge, sizes)
    names = [n for n, _ in edge.axes]
    kept = [names.index(a) for a in verdict.at.axes]
    assert all(len({tuple(p[n] for n in kept) for p in points}) == 1 for points in needs.values())
    for axis in (n for n in names if n not in verdict.at.axes):  # as many as there are
        more = sorted((*kept, names.index(axis)))
        assert any(len({tuple(p[n] for n in more) for p in points}) > 1 for points in needs.values())
    assert verdict.at.is_legal == (len(kept) == len(names)) == (verdict.at.witness is None)


@pytest.mark.parametrize(("module", "edge"), EVERY)
def test_a_witness_is_one(module: region.Module, edge: Edge) -> None:
    witness = verdict_of(edge, module.model, values_of(module)).at.witness
    if witness is None:
        return
    needs = needs_by_hand(module.program.regions[0], edge, {**values_of(module), **dict(witness.sizes)})
    names = [n for n, _ in edge.axes]
    seen = {tuple(p[names.index(a)] for a in witness.axes) for p in needs[witness.element]}
    assert witness.first != witness.second and {witness.first, witness.second} <= seen


@pytest.mark.parametrize(("module", "edge"), EVERY)
def test_a_halo_is_what_neighbours_share(module: region.Module, edge: Edge) -> None:
    """By axis, the extent of what two neighbouring points share along an element axis in which they differ; in bytes,
    what the middle tile needs and the tiles before it need too."""
    sizes = values_of(module)
    halo = verdict_of(edge, module.model, sizes).halo
    needs = needs_by_hand(module.program.regions[0], edge, sizes)
    reads: dict[tuple[int, ...], set[tuple[int, ...]]] = defaultdict(set)
    for element, points in needs.items():
        for point in points:
            reads[point].add(element)
    names = [n for n, _ in edge.axes]
    for at, name in enumerate(names):
        assert dict(halo.per_axis)[name] == shared_along(reads, at), name
    assert dict(halo.tile) == {n: min(TILE, dict(edge.axes)[n].evaluate(sizes)) for n, size in halo.per_axis if size}
    tile = dict(halo.tile)
    middle = {n: size.evaluate(sizes) // 2 for n, size in edge.axes}
    home = tuple(middle[n] // tile[n] for n in tile)
    here, before = set(), set()
    for point, elements in reads.items():
        place = dict(zip(names, point))
        if all(place[n] == middle[n] for n in names if n not in tile):
            number = tuple(place[n] // tile[n] for n in tile)
            here |= elements if number == home else set()
            before |= elements if number < home else set()
    assert halo.bytes == len(here & before) * edge.bytes_each


def shared_along(reads: Mapping[tuple[int, ...], set[tuple[int, ...]]], at: int) -> int:
    """The most elements, along one element axis, between the first and the last that a point and the next one along
    axis `at` share; 0 where they need the same ones along every element axis."""
    most = 0
    for point, elements in reads.items():
        other = reads.get((*point[:at], point[at] + 1, *point[at + 1 :]), set())
        for dim in range(len(next(iter(elements)))):
            mine, theirs = ({e[dim] for e in side} for side in (elements, other))
            both = {e[dim] for e in elements & other}
            if other and both and any_differs(reads, at, dim):
                most = max(most, max(both) - min(both) + 1) if mine or theirs else most
    return most


def any_differs(reads: Mapping[tuple[int, ...], set[tuple[int, ...]]], at: int, dim: int) -> bool:
    """Whether some neighbours along an axis need different places along an element axis."""
    for point, elements in reads.items():
        other = reads.get((*point[:at], point[at] + 1, *point[at + 1 :]))
        if other is not None and {e[dim] for e in elements} != {e[dim] for e in other}:
            return True
    return False


def test_a_product_of_symbols_is_a_size_too() -> None:
    """Sizes that isl cannot hold are parameters of their own."""
    module = module_of({"X": "fp32[M*N]"}, "fp32[M*N]", "i0: M*N", {"M": 3, "N": 5}, "yield Y[i0] = X[-i0 + M*N - 1]")
    (edge,) = edges_of(module.program.regions[0])
    verdict = verdict_of(edge, module.model, values_of(module))
    assert verdict.at.is_legal and verdict.halo.bytes == 0


def test_what_is_not_affine_is_said_to_be() -> None:
    module = module_of({"X": "fp32[N*N]"}, "fp32[N, N]", "i0: N, i1: N", {"N": 5}, "yield Y[i0, i1] = X[N*i0 + i1]")
    report = report_of(module)
    assert not report.regions[0].is_affine and "X -> Y                              not affine" in show_report(report)
    assert as_json(report)["regions"][0]["analysis"]["compute_at"] == [{"source": "X", "reader": "Y", "affine": False}]


# --- the report as a whole


def kernels_of(sample: str) -> tuple[region.Module, Any]:
    module = gpu.parse((ROOT / f"samples/{sample}/{sample}.gpu").read_text())
    return module.plans.program, module.kernels


SAMPLES = sorted(p.name for p in (ROOT / "samples").iterdir() if p.is_dir())


@pytest.mark.parametrize("sample", SAMPLES)
def test_json_is_as_the_schema_says(sample: str) -> None:
    found = json.loads(json.dumps(as_json(report_of(*kernels_of(sample)))))
    assert list(faults_of(found, SCHEMA, SCHEMA)) == []
    assert [r["region"] for r in found["regions"]] == [r.name for r in kernels_of(sample)[0].program.regions]


def test_the_schema_refuses_what_is_otherwise() -> None:
    """A schema that lets everything through would show nothing."""
    found = as_json(report_of(*kernels_of("mlp")))
    for change in (
        lambda f: f.pop("sizes"),
        lambda f: f["regions"][0]["analysis"].pop("tail_axes"),
        lambda f: f["kernels"][0]["shared"][0].update(swizzle=16),
        lambda f: f["kernels"][0]["shared"][0]["accesses"][0].update(ways="1"),
        lambda f: f.update(more=1),
    ):
        spoiled = json.loads(json.dumps(found))
        change(spoiled)
        assert list(faults_of(spoiled, SCHEMA, SCHEMA))


def test_regions_of_the_report_say_what_their_analysis_says() -> None:
    for sample in SAMPLES:
        module, _ = kernels_of(sample)
        for one, found in zip(module.program.regions, as_json(report_of(module))["regions"]):
            stated = one.analysis
            assert found["analysis"]["parallel_axes"] == list(stated.parallel)
            assert found["analysis"]["reduce_axes"] == list(stated.reduce)
            assert found["analysis"]["tail_axes"] == list(stated.tail)
            assert found["analysis"]["min_buffer"] == {"buffer": stated.buffer, "depth": stated.depth}


def test_dependences_between_regions() -> None:
    """A state is read by one region and written by a later one."""
    module = lower_to("region", lower_to("poly", lower_to("index", counter(), "sm90"), "sm90"), "sm90")
    found = as_json(report_of(module))["regions"]
    kinds = {(r["region"], d["kind"], d["on"]) for r in found for d in r["analysis"]["dependences"]}
    assert {kind for _, kind, _ in kinds} == {"true", "anti"}
    module, _ = kernels_of("mlp")
    assert [d for r in as_json(report_of(module))["regions"] for d in r["analysis"]["dependences"]] == [
        {"kind": "true", "tensor": "H", "on": "up"}
    ]


def counter() -> Any:
    from tinyir.ir import tiny

    return tiny.parse("""tinyir 1.0 tiny

model m
  in  s : fp32[N] {role=state, mutability=mutable}
  in  x : fp32[N]
  out y : fp32[]
  out s : fp32[N]

%y = REDUCE(s) {op=SUM, axes=[0], dtype=fp32} : fp32[]
%f = FLIP(s) {axes=[0]} : fp32[N]
%new = ADD(%f, x) : fp32[N]
outputs: y=%y, s=%new
""")
