"""tiny-tune: as tiny-plan, but the candidates are measured on the GPU; the winner is printed, and kept for `tiny-plan
--tuned`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ir import plan as plan_text
from ..ir import region as region_text
from ..kit.cli import Session, must_be_faultless, parser_of, run, tell
from ..kit.diag import Refused
from ..kit.kept import place_of
from ..kit.progress import Progress
from ..lower import language_of, lowering_of
from ..target.device import device_titled
from .feed import size_options
from .stage import any_module, must_be, stage_of


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-tune",
        "How each region becomes a kernel, found by measuring on the GPU.",
        "region text, or plan text whose alternatives are to be tried",
        examples=(
            ("tiny-tune m.region -o m.plan", "measure candidates on the GPU and keep the fastest"),
            ("tiny-tune --by ptxas m.region -o m.plan", "without a GPU: leave out what spills registers"),
        ),
    )
    made.add_argument(
        "--by",
        choices=("time", "ptxas"),
        default="time",
        help="time: on the GPU; ptxas: needs none, drops what spills registers and keeps the cost model's order "
        "(default: time)",
    )
    made.add_argument(
        "--arch", choices=("sm80", "sm90"), help="the GPU generation to plan for (default: the GPU's; by ptxas sm90)"
    )
    made.add_argument(
        "--budget", type=float, default=30.0, metavar="SECONDS", help="time for all kernels together (default: 30)"
    )
    made.add_argument(
        "--top",
        type=int,
        default=20,
        metavar="N",
        help="candidates per kernel, the cheapest by the cost model (default: 20)",
    )
    made.add_argument(
        "--seed", type=int, default=0, help="of the random arrays that outputs are compared on (default: 0)"
    )
    made.add_argument(
        "--log", metavar="FILE.csv", help="append every trial here (default: tuned/trials.csv in the cache)"
    )
    size_options(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read region text (or plan text, whose plans are then the candidates), print plan text; the exit code."""
    return run("tiny-tune", parser().parse_args(argv), _body)


def _body(session: Session) -> None:
    args: argparse.Namespace = session.args
    from ..runtime.arrays import sizes_for
    from ..tune.program import at_sizes, kernels_of, tune

    _, module = any_module(session, "region")
    given = stage_of(session.text)
    if given != "plan":
        must_be(session.text, "region")
    program: region_text.Module = module if given == "region" else module.program
    session.must_hold(session.timed("check", lambda: region_text.check(program)))
    sizes = sizes_for(program.model, args.shapes, dict(args.size))
    trials = _Trials(args)
    try:
        if given == "plan":
            planned, listed = module, {names: plans[: args.top] for names, plans in kernels_of(module).items()}
        else:
            planned = lowering_of("plan").lower(at_sizes(program, sizes), arch=trials.arch, device=trials.card)
            listed = {
                names: _candidates(planned, names, trials.arch, trials.card)[: args.top]
                for names in kernels_of(planned)
            }
        result = tune(planned, listed, sizes, args.budget, trials.of)
    finally:
        trials.close()
    written = plan_text.Module(region_text.Module(program.model, result.program.program), result.plans)
    must_be_faultless(language_of("plan").check(written))
    session.write(plan_text.show(written))


def _candidates(planned: plan_text.Module, names: tuple[str, ...], arch: str, card: str | None) -> list[plan_text.Plan]:
    """What the cost model keeps for a kernel, which goes by its first region."""
    one, *others = (planned.program.program.region(name) for name in names)
    found = lowering_of("plan").candidates(planned.program, one, arch=arch, device=card, others=tuple(others))
    return [c.plan for c in found if not c.rejected]


class _Trials:
    """The trials of one command: on the GPU, or by ptxas; each is drawn, logged, and the winner of measured ones
    kept."""

    def __init__(self, args: argparse.Namespace):
        from ..runtime.compile import find_compiler

        self._args = args
        self._card: Any = None
        self.compiler, self.arch, self.device = find_compiler().name, args.arch or "sm90", ""
        self.card: str | None = None
        if args.by == "time":
            from ..tune.card import GpuCard

            self._card = GpuCard()
            self.device, self.arch = self._card.name, args.arch or self._card.generation
            self.card = device_titled(self.device) if self.arch == self._card.generation else None

    def of(
        self,
        program: region_text.Module,
        candidates: Sequence[plan_text.Plan],
        sizes: Mapping[str, int],
        seconds: float,
    ) -> Any:
        """The winner among the candidates of one region alone. Raises Refused (E1591)."""
        from ..runtime.compile import cubin_of, usage_of
        from ..tune.search import search, sift
        from ..tune.store import keep_winner
        from ..tune.table import log_rows, trial_line, trials_table

        seen: list[Any] = []
        name = program.model.name
        try:
            with Progress(name, len(candidates)) as bar:

                def on_trial(trial: Any) -> None:
                    seen.append(trial)
                    bar.advance(trial_line(trial))

                if self._card is None:
                    target = {"sm80": "sm_80", "sm90": "sm_90a"}[self.arch]
                    found = sift(program, candidates, sizes, lambda text: usage_of(cubin_of(text, target)), on_trial)
                else:
                    found = search(program, candidates, sizes, self._card, seconds, self._args.seed, on_trial)
                    keep_winner(program, self.device, self.compiler, found.plans)
            return found
        finally:
            tell(trials_table(name, seen).removesuffix("\n"))
            self._log(log_rows(name, self.device, self.compiler, sizes, seen))

    def _log(self, rows: list[list[object]]) -> None:
        from ..tune.store import FOLDER, append_log

        if self._args.log:
            append_log(Path(self._args.log), rows)
            return
        with contextlib.suppress(Refused, OSError):  # nobody asked for it by name; the cache is a favour
            if (place := place_of(f"{FOLDER}/trials.csv")) is not None:
                append_log(place, rows)

    def close(self) -> None:
        if self._card is not None:
            self._card.close()
