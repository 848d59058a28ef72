"""The .cu text: its comment block is read whatever has become of the code below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.ir import manifest
from tinyir.kit.diag import Refused
from tinyir.kit.records import replace

TEXT = (Path(__file__).resolve().parents[2] / "samples" / "gemm_bias_relu" / "gemm_bias_relu.cu").read_text(
    encoding="utf-8"
)


def test_block_says_how_to_launch() -> None:
    module = manifest.parse(TEXT)
    hopper, copies, padded, launch = module.launches
    assert (copies.serves, padded.name) == ("gemm.2", "gemm.2") and copies.flops.constant == 0
    assert hopper.entry == "gemm" and len(hopper.maps) == 3 and hopper.grid_at({"M": 8, "N": 8, "K": 8}) == (132, 1, 1)
    sizes = {"M": 129, "N": 65, "K": 7}
    grid = launch.grid_at(sizes)
    assert grid[2] == 1 and grid[0] * grid[1] >= 2
    assert launch.entry == "gemm_3" and launch.tensors == ("A", "B", "bias", "C2") and set(launch.symbols) == set(sizes)
    assert launch.flops.evaluate(sizes) == 2 * 129 * 65 * 7 + 2 * 129 * 65
    assert launch.bytes.evaluate(sizes) == 2 * (129 * 7 + 7 * 65 + 65 + 129 * 65)
    assert module.region.program.region("gemm") is not None
    assert manifest.check(module) == []


def test_a_launch_that_is_like_another_names_it() -> None:
    module = manifest.parse(TEXT)
    first, *others = module.launches
    like = replace(first, name="again", regions=("gemm", "gemm.3"), tensors=("b", "c"), maps=())
    moved = replace(like, name="moved", regions=("moved",), moved=(("c", (3,)),))
    more = replace(module, launches=(first, *others, like, replace(like, smem=64), moved))
    text = manifest.show(more)
    assert "//   launch again of gemm, gemm.3 like gemm : tensors [b, c]\n" in text
    assert "//   launch moved like gemm : tensors [b, c at [3]]\n" in text and text.count(" like ") == 2
    assert manifest.parse(text).launches == more.launches
    with pytest.raises(Refused) as fault:
        manifest.parse(text.replace("moved like gemm", "moved like gem"))
    (told,) = fault.value.diags
    assert (told.code, told.facts["name"]) == ("E1632", "gem")


def test_windows_line_ends_read_alike() -> None:
    assert manifest.parse(TEXT.replace("\n", "\r\n")).launches == manifest.parse(TEXT).launches


def test_edited_code_is_kept_to_the_byte() -> None:
    edited = TEXT.replace("__syncthreads();", "__syncthreads();  // mine", 1) + "\n\n// tinyir 1.0 cu\nint other;"
    assert manifest.show(manifest.parse(edited)) == edited


def test_a_file_without_block_is_only_code() -> None:
    module = manifest.parse("__global__ void f() {}\n")
    assert module.region is None and module.source == manifest.show(module)
    assert [d.code for d in manifest.check(module)] == ["E1630"]


def test_a_comment_block_cut_short_is_a_syntax_error() -> None:
    with pytest.raises(Refused) as fault:
        manifest.parse(TEXT[: TEXT.index("//     flops")])
    assert [d.code for d in fault.value.diags] == ["E0002"]


def test_spans_stand_in_the_cu_text() -> None:
    broken = TEXT.replace("grid [", "gird [")
    with pytest.raises(Refused) as fault:
        manifest.parse(broken)
    span = fault.value.diags[0].span
    assert broken[span.start : span.end] == "gird" and broken.split("\n")[span.line - 1][span.column - 1 :].startswith(
        "gird"
    )


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("\ngemm(", "\ngemm_(", "E1631"),
        ("tensors [A,", "tensors [AA,", "E1632"),
        ("symbols [M,", "symbols [MM,", "E1632"),
    ],
)
def test_planted_fault_is_found(old: str, new: str, code: str) -> None:
    assert old in TEXT
    assert code in {d.code for d in manifest.check(manifest.parse(TEXT.replace(old, new)))}
