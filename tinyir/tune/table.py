"""Trials for people, and as rows of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.plan import Plan, show_plan
from ..kit.columns import in_columns
from .trial import Trial

COLUMNS = ("", "algo", "tile", "made of", "model us", "measured us", "regs", "spilled B", "remark")


def trial_line(trial: Trial) -> str:
    """One trial in a few words."""
    return f"{' '.join(trial.plan.headline)} " + (
        f"{trial.microseconds:.2f} us" if trial.microseconds is not None else trial.reason[:60]
    )


def trials_table(name: str, trials: Sequence[Trial]) -> str:
    """The trials of one kernel under a heading, fastest first, then those that were not timed with the reason; ends in
    a line break."""
    ordered = sorted(trials, key=lambda t: (bool(t.reason), t.microseconds if t.microseconds is not None else 0.0))
    rows = [COLUMNS, *(_row(number, t) for number, t in enumerate(ordered, 1))]
    lines = in_columns(rows, (1, 3, 8))
    return f"kernel {name}: {sum(not t.reason for t in trials)} of {len(trials)} candidates\n" + "\n".join(lines) + "\n"


def log_rows(
    name: str, device: str, compiler: str, sizes: Mapping[str, int], trials: Sequence[Trial]
) -> list[list[object]]:
    """A row a trial under `store.LOG_COLUMNS`."""
    at = " ".join(f"{symbol}={size}" for symbol, size in sizes.items())
    rows: list[list[object]] = []
    for t in trials:
        estimate = t.plan.estimate
        figures = [t.flops, t.bytes, estimate.occupancy if estimate else "", estimate.microseconds if estimate else ""]
        actual = "" if t.microseconds is None else f"{t.microseconds:.3f}"
        rows.append([name, device, compiler, at, *t.plan.headline, *figures, actual, t.reason, show_plan(t.plan)])
    return rows


def _row(number: int, trial: Trial) -> tuple[str, ...]:
    usage = list((trial.usage or {}).values())
    regs = str(max(u.registers for u in usage)) if usage else ""
    spilled = str(sum(u.spill_stores + u.spill_loads for u in usage)) if usage else ""
    model = f"{trial.plan.estimate.microseconds:g}" if trial.plan.estimate else ""
    measured = f"{trial.microseconds:.2f}" if trial.microseconds is not None else ""
    return (
        str(number),
        *trial.plan.headline,
        _parts(trial.plan),
        model,
        measured,
        regs,
        spilled,
        trial.reason,
    )


def _parts(plan: Plan) -> str:
    parts = [f"{plan.stages} stages"] * (plan.stages > 1) + ["x".join(map(str, plan.threads)) + " threads"] * bool(
        plan.threads
    )
    if plan.consumers:
        parts.append(f"{plan.consumers.count} consumers")
    if plan.cluster:
        parts.append(f"cluster {'x'.join(map(str, plan.cluster.shape))}")
    if plan.split_k:
        parts.append(f"split {plan.split_k.parts}")
    if plan.order:
        parts.append(f"{plan.order.by} {plan.order.width}")
    return ", ".join(parts)
