"""Region text: what is printed is what was read, for every form of the language."""

from pathlib import Path

import pytest

from tinyir.ir import region
from tinyir.kit.diag import Refused

ROOT = Path(__file__).resolve().parents[2]
TEXTS = sorted([*ROOT.glob("samples/*/*.region"), *ROOT.glob("tests/golden/**/*.region")])


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.stem)
def test_round_trip(path):
    text = path.read_text(encoding="utf-8")
    module = region.parse(text)
    assert region.show(module) == text
    assert region.parse(region.show(module)) == module


def _body(
    line: str, tensors: str = "  in  X           : fp32[N]\n  in  I           : i32[N]\n  out Y           : fp32[N]\n"
) -> str:
    return f"tinyir 1.0 region\n\nmodel m\n{tensors}\nprogram m\n\nregion r\n{tensors}  for i0: N\n{line}\n"


@pytest.mark.parametrize(
    "line, code",
    [
        ("    %a = add(X[i0], I[i0])", "E1002"),
        ("    %a = add(X[i0], Z[i0])", "E0202"),
        ("    %a = add(%b, X[i0])", "E0202"),
        ("    %a = plus(X[i0], X[i0])", "E0105"),
        ("    %a = add(X[i0])", "E0204"),
        ("    %a = add(1.0, 2.0)", "E1411"),
        ("    %a = add(X[i0], X[i0]) : fp64", "E1002"),
        ("    %a = cast(X[i0])", "E1002"),
        ("    %a = fp99(X[i0]) : fp32", "E0105"),
        ("    %a = cast(X[i0]) : fp99", "E0101"),
        ("    %a = add(X[i0][i0][i0], X[i0])", "E1412"),
        ("    %a = X[i0] where i0 < 3 else I[i0]", "E1002"),
        ("    %a = add(X[i0], ", "E0002"),
    ],
)
def test_refuses(line, code):
    with pytest.raises(Refused) as refused:
        region.parse(_body(line))
    assert [d.code for d in refused.value.diags] == [code]
    assert refused.value.diags[0].span is not None


def test_all_faults_of_a_text_in_one_run():
    with pytest.raises(Refused) as refused:
        region.parse(_body("    %a = add(X[i0], Z[i0])\n    %b = plus(X[i0], X[i0])\n  yield Y[i0] = 1.0"))
    assert [d.code for d in refused.value.diags] == ["E0202", "E0105", "E1411"]
