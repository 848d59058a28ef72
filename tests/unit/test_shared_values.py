"""Values that each refer to one before them more than once: there are 2**n ways through n of them, and the work of
every stage is that of n values."""

from __future__ import annotations

from typing import Any

import pytest

from tinyir.ir import tiny
from tinyir.ir.pipeline import STAGES
from tinyir.lower import language_of, lower_to

from .effort import counted

ROW = """tinyir 1.0 tiny

model chain
  in  X           : fp32[R, 4]
  out Y           : fp32[R, 4]

  %top = REDUCE(X) {{op=MAX, axes=[1], dtype=fp32}} : fp32[R]
  %wide = EXPAND(%top) {{broadcast_dimensions=[0]}} : fp32[R, 4]
  %v0 = SUB(X, %wide) : fp32[R, 4]
{steps}
outputs: Y=%v{count}
"""
MAP = """tinyir 1.0 tiny

model chain
  in  X           : fp32[R, 4]
  out Y           : fp32[R, 4]

  %v0 = NEG(X) : fp32[R, 4]
{steps}
outputs: Y=%v{count}
"""


def through(text: str, count: int) -> None:
    """A chain of values, each of which divides the one before it by a function of it, at every stage."""
    steps = "".join(
        f"  %e{n} = TANH(%v{n}) : fp32[R, 4]\n  %v{n + 1} = FDIV(%v{n}, %e{n}) : fp32[R, 4]\n" for n in range(count)
    )
    module: Any = tiny.parse(text.format(steps=steps, count=count))
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
        assert [d for d in language_of(stage).check(module) if d.is_error] == [], stage


@pytest.mark.parametrize("text", [ROW, MAP], ids=["row", "map"])
def test_work_grows_with_values_and_not_with_ways(text: str) -> None:
    through(text, 2)
    short, long = (counted(through, text, count)[0] for count in (6, 24))
    assert long < 8 * short
