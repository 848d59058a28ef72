"""The table that `tiny-plan --explain` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...ir.plan import Plan, show_microseconds
from ...kernels.candidate import Candidate
from ...kit.columns import in_columns
from ...target.device import Device

COLUMNS = ("", "algo", "tile", "made of", "time us", "TFLOP/s", "GB/s", "bound", "smem B", "regs", "CTA/SM", "verdict")


def rows_of(found: Sequence[Candidate]) -> list[tuple[str, ...]]:
    """One row a candidate under `COLUMNS`, all text; the chosen one says so, a rejected one says why."""
    rows = []
    for number, c in enumerate(found, 1):
        verdict = c.rejected or ("chosen" if number == 1 else "")
        figures = (
            ("", "", "", "", "", "", "")
            if c.cost is None
            else (
                show_microseconds(c.cost.estimate().microseconds),
                f"{c.cost.tflops:.3g}",
                f"{c.cost.gbs:.4g}",
                c.cost.bound,
                str(c.cost.smem),
                str(c.cost.regs),
                str(c.cost.occupancy),
            )
        )
        rows.append((str(number), *c.plan.headline, _parts(c.plan), *figures, verdict))
    return rows


def table_of(region: str, found: Sequence[Candidate], card: Device, is_whole: bool = False) -> str:
    """The candidates of one region under a heading, columns aligned, numbers to the right; ends in a line break. Of the
    rejected ones there is a count a reason, or when `is_whole` a row each."""
    rows = [COLUMNS, *rows_of(found if is_whole else [c for c in found if not c.rejected])]
    lines = in_columns(rows, (1, 3, 7, 11))
    kept = sum(not c.rejected for c in found)
    if not is_whole:
        lines += [
            f"rejected {count}: {reason}"
            for reason, count in Counter(c.rejected for c in found if c.rejected).most_common()
        ]
    return f"region {region} on {card.title}: {kept} of {len(found)} candidates kept\n" + "\n".join(lines) + "\n"


def _parts(plan: Plan) -> str:
    ways = f", sum in {plan.parts}" if plan.parts > 1 else ""
    ways += ", swapped" if plan.swap_ab else ""
    ways += f", {plan.partials} partial sums" if plan.partials > 1 else ""
    for word, names in (
        ("padded", [i.tensor for i in plan.layout if plan.is_padded(i.tensor)]),
        ("turned", [i.tensor for i in plan.layout if plan.is_turned(i.tensor)]),
    ):
        ways += f", {' and '.join(name + ' once' * plan.is_kept(name) for name in names)} {word}" if names else ""
    if plan.consumers:
        order = f", group {plan.order.width}" if plan.order else ""
        cluster = "x".join(map(str, plan.cluster.shape)) if plan.cluster else "1x1"
        return f"{plan.stages} stages, {plan.consumers.count} consumers, {cluster}{order}{ways}"
    return "x".join(map(str, plan.threads)) + (f" of {'x'.join(map(str, plan.micro))}" if plan.micro else "") + ways
