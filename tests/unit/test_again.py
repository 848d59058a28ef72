"""Regions that are an earlier one but for names, and for where they read, are written by what differs; the text means
what it would if they were written whole."""

from __future__ import annotations

import pytest

from tinyir.ir import manifest, plan, region
from tinyir.ir.body import walk
from tinyir.ir.region import show_region
from tinyir.kit.diag import Refused
from tinyir.kit.records import replace
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu

from .doubled import AGAIN, doubled
from .families import CASES
from .test_moved_launches import steps


def whole(module: region.Module) -> str:
    """A region text in which each region is written whole."""
    head = region.show(replace(module, program=replace(module.program, regions=())))
    return head.rstrip("\n") + "\n\n" + "\n\n".join(map(show_region, module.program.regions)) + "\n"


def test_steps_are_written_once() -> None:
    module = region.parse(steps())
    text = region.show(module)
    assert text.count("  for ") == 1
    assert text.endswith("\nregion Y as h1\n  tensors [X at [-1], h3, Y]  values []\n")
    assert region.parse(text) == module == region.parse(whole(module))
    assert region.show(region.parse(text)) == text


@pytest.mark.parametrize("name", CASES)
def test_a_second_copy_is_written_by_what_differs(name: str) -> None:
    """Regions in one memory with another tensor, and those that must share a kernel, are written whole."""
    both = doubled(plan.parse(CASES[name])).program
    text = region.show(both)
    assert region.parse(text) == both == region.parse(whole(both))
    assert region.show(region.parse(text)) == text
    alike = [
        one
        for one in both.program.regions
        if one.name.endswith(AGAIN)
        and not one.must_fuse
        and not any({"alias", "value"} & dict(t.attrs).keys() for t in (*one.inputs, *one.outputs))
    ]
    for one in alike:
        assert f"\nregion {one.name} as {one.name.removesuffix(AGAIN)}\n" in text or "as" in text


def origins(module: region.Module) -> list[tuple[str, list[str]]]:
    return [(one.name, [str(item.origin) for item in (*one.lets, *one.yields)]) for one in module.program.regions]


def test_origins_are_kept() -> None:
    """Which op of the model a value came from is said of each region."""
    lines = steps().splitlines()
    for at in reversed([n for n, line in enumerate(lines) if line.startswith("  yield")]):
        lines.insert(at, f"  from op{at} : Elementwise at {at}:5")
    module = region.parse("\n".join(lines) + "\n")
    again = region.parse(region.show(module))
    assert region.show(module).count("\n  from op") == 4 and " as h1\n" in region.show(module)
    assert origins(again) == origins(module) and len(set(map(str, origins(module)))) == 4


def test_parts_are_where_the_region_is() -> None:
    """What is said of a part of such a region is shown at its name, not in the text of another."""
    text = region.show(region.parse(steps()))
    *_, last = region.parse(text).program.regions
    start = text.index("Y as h1")
    spans = [t.span for t in (*last.inputs, *last.outputs)] + [n.span for y in last.yields for n in walk(y.expr)]
    assert {(s.start, s.end) for s in spans} == {(start, start + 1)}


FAULTS = {
    ("Y as h1", "Y as h9"): "is not a region above it",
    ("Y as h1", "Y as Y"): "is not a region above it",
    ("[X at [-1], h3, Y]", "[X at [-1], h3]"): "has 3 tensors",
    ("Y]  values []", "Y]  values [v]"): "has 3 tensors, 0 values",
    ("h3, Y]", "h3, Y at [1]]"): "does not read h1",
    ("[X at [-1]", "[X at [0, 0, 0, 1]"): "does not read X",
}


@pytest.mark.parametrize("old", FAULTS)
def test_faults(old: tuple[str, str]) -> None:
    text = region.show(region.parse(steps()))
    assert text.count(old[0]) == 1
    with pytest.raises(Refused) as refused:
        region.parse(text.replace(*old))
    (told,) = refused.value.diags
    assert told.code == "E1429" and str(told.facts["fault"]).startswith(FAULTS[old])


def test_a_place_outside_is_told_of_the_region() -> None:
    text = region.show(region.parse(steps())).replace("X at [-1]", "X at [2]")
    assert [(d.code, d.at.split(" ")[0]) for d in region.check(region.parse(text)) if d.is_error] == [("E1403", "Y")]


def sums(*sizes: tuple[int, int], fold: str = "sum") -> str:
    """Region text of guarded sums over rows of these sizes."""
    names = [f"s{n}" for n in range(len(sizes))]
    inputs = [f"  in  X{n} : fp32[{rows}, {columns}]" for n, (rows, columns) in zip(names, sizes)]
    outputs = [f"  out {n} : fp32[{rows}]" for n, (rows, _) in zip(names, sizes)]
    text = ["tinyir 1.0 region", "", "model sums", *inputs, *outputs, "", "program sums"]
    for given, made, n, (rows, columns) in zip(inputs, outputs, names, sizes):
        read = f"X{n}[i0, k0 + 1] where k0 + 1 < {columns} else 0.0"
        text += [
            "",
            f"region {n}",
            given,
            made,
            f"  for i0: {rows}",
            f"  %f{n} = reduce {fold} (k0: {columns}) : fp32 {{ {read} }}",
            f"  yield {n}[i0] = add(%f{n}, X{n}[i0, {columns - 2}])",
        ]
    return "\n".join(text) + "\n"


def test_other_sizes_are_numbers() -> None:
    """Sizes of axes, ends of guards and indices, in the order of the text; shapes are those of the tensors."""
    module = region.parse(sums((4, 96), (4, 96), (8, 160), (4, 160)))
    text = region.show(module)
    assert text.count("  for ") == 1
    assert text.endswith(
        "\nregion s1 as s0\n  tensors [Xs1, s1]  values [fs1]"
        "\nregion s2 as s0\n  tensors [Xs2, s2]  values [fs2]  numbers [8, 160, 160, 158]"
        "\nregion s3 as s0\n  tensors [Xs3, s3]  values [fs3]  numbers [4, 160, 160, 158]\n"
    )
    assert region.parse(text) == module == region.parse(whole(module))
    assert region.show(region.parse(text)) == text
    (two, three) = (one.inputs[0].type for one in module.program.regions[2:])
    assert [str(two), str(three)] == ["fp32[8, 160]", "fp32[4, 160]"]


def test_numbers_in_arithmetic_are_no_sizes() -> None:
    text = sums((4, 96), (8, 96))
    for old, new in (("k0 + 1 <", "k0 + 2 <"), ("else 0.0", "else 1.0"), ("reduce sum", "reduce max")):
        first, second = text.rsplit("region s1", 1)
        other = region.show(region.parse(first + "region s1" + second.replace(old, new)))
        assert " as s0" not in other


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("[8, 160, 160, 158]", "[8, 160, 160]", "E1429"),
        ("[8, 160, 160, 158]", "[8, 160, 160, 158, 1]", "E1429"),
        ("[8, 160, 160, 158]", "[8, 160, 160, 200]", "E1403"),
        ("[8, 160, 160, 158]", "[9, 160, 160, 158]", "E1403"),
    ],
)
def test_numbers_that_do_not_fit(old: str, new: str, code: str) -> None:
    text = region.show(region.parse(sums((4, 96), (8, 160))))
    assert text.count(old) == 1
    try:
        found = [d.code for d in region.check(region.parse(text.replace(old, new))) if d.is_error]
    except Refused as refused:
        found = [d.code for d in refused.diags]
    assert code in found


def test_cuda_text_has_a_region_once() -> None:
    """Lines of a further step: its buffer, its region, and its launch."""
    texts = {n: manifest.show(to_cu.lower(to_gpu.lower(_planned(n)))) for n in (4, 5)}
    assert texts[5].count("\n") - texts[4].count("\n") <= 4


def _planned(count: int) -> plan.Module:
    from tinyir.lower import plan as to_plan

    return to_plan.lower(region.parse(steps("8, 2, 64", tuple(range(count)))), "sm90")
