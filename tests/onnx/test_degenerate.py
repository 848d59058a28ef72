"""Each ONNX op in scope where there is nothing, or a single number: as the standard says, in tiny text."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.front.onnx.table import ONNX_OPS  # noqa: E402
from tinyir.ir import tiny  # noqa: E402
from tinyir.ir.pipeline import language_of  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play import book, region  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

from .cases import OUT, STRETCH  # noqa: E402
from .degenerate import NODES, Versioned  # noqa: E402
from .test_opsets import standard  # noqa: E402


def test_every_op_in_scope_is_there() -> None:
    wanted = {op for domain, op in ONNX_OPS if domain == ""} - STRETCH - OUT
    assert sorted(wanted - {c.op for c in NODES}) == []


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            c, id=f"{i}-{c.name}-{'-'.join('x'.join(map(str, a.shape)) or 's' for a in c.inputs if a is not None)}"
        )
        for i, c in enumerate(NODES)
    ],
)
def test_nothing_and_one_give_what_the_standard_says(case: Versioned) -> None:
    module = front.read(to_json(case.model().SerializeToString()))
    assert [d for d in tiny.check(module) if d.is_error] == []
    found = play(module, case.feeds())
    for given, wanted in zip(found.values(), standard(case), strict=True):
        wanted = np.asarray(wanted)
        assert given.shape == wanted.shape and given.dtype == wanted.dtype
        np.testing.assert_allclose(given.astype(np.float64), wanted.astype(np.float64), rtol=1e-5, atol=1e-6)


def _other_players(cases: list[Versioned]) -> list[str]:
    """The cases of which the book or the regions give something else than tiny text does, or of which a text does not
    hold."""
    differ = []
    for case in cases:
        module = front.read(to_json(case.model().SerializeToString()))
        wanted = play(module, case.feeds())
        for stage, player in (("index", book.play), ("poly", None), ("region", region.play)):
            module = lower_to(stage, module, "sm90")
            faults = [d.code for d in language_of(stage).check(module) if d.is_error]
            found = player(module, case.feeds()) if player else wanted
            same = all(
                found[n].shape == a.shape
                and found[n].dtype == a.dtype
                and np.allclose(found[n], a, 1e-6, 1e-6, equal_nan=True)
                for n, a in wanted.items()
            )
            if faults or not same:
                differ.append(f"{case.name} {stage} {faults}")
    return differ


def test_the_book_and_the_regions_agree() -> None:
    assert _other_players(NODES[::9]) == []


@pytest.mark.slow
def test_the_book_and_the_regions_agree_on_all() -> None:
    assert _other_players(NODES) == []
