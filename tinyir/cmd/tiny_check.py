"""tiny-check: every invariant of a text's language, for any stage; that book and blocks mean what the program does;
what is proven and what is found of regions, as text; whether two texts give the same; certificates of kernels."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from ..kit.cli import Session, parser_of, run, tell
from ..kit.diag import Diag, refuse
from .feed import feed_options
from .stage import any_module


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-check",
        "Verify a text of any stage against the invariants of its language.",
        "text of any stage",
        has_output=False,
        examples=(
            ("tiny-check m.plan", "verify a text; silent when it holds"),
            (
                "tiny-check --diff m.tiny k.cu --random 7",
                "play two texts on the same arrays and name the first value that differs",
            ),
            ("tiny-check --certify k.cu > k.cert", "say what there is to show of each kernel, and what shows it"),
            ("tiny-check --verify k.cert k.cu", "check that again, by a program that shares no code with the first"),
        ),
    )
    made.add_argument(
        "--proofs",
        action="store_true",
        help="print what there is to prove of each region, and what shows it; of plans also that they take every size",
    )
    made.add_argument(
        "--report",
        nargs="?",
        const="text",
        choices=("text", "json"),
        help="print what the analysis finds of each region (axes, compute_at with halos, buffers, barriers) and, from "
        "plan text on, the bank conflicts of each kernel's shared memory",
    )
    made.add_argument(
        "--certify",
        action="store_true",
        help="print a certificate of the kernels of gpu text or CUDA: what there is to show of each line, with the "
        "sums that show it",
    )
    made.add_argument(
        "--gpu",
        metavar="FILE",
        help="the gpu text that the CUDA of --certify was printed from (default: what its regions are planned as)",
    )
    made.add_argument(
        "--verify",
        metavar="CERT",
        help="check a certificate of gpu text or CUDA: find what there is to show in the text, and add up every sum",
    )
    made.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help="play two texts of any stages on the same arrays and name the first value that differs",
    )
    made.add_argument(
        "--rtol",
        type=float,
        default=1e-3,
        metavar="X",
        help="relative tolerance of --diff for floats, at least the distance of neighbours in the dtype (default: "
        "1e-3)",
    )
    made.add_argument(
        "--atol",
        type=float,
        default=1e-3,
        metavar="X",
        help="absolute tolerance of --diff for floats; integers and bools must be equal (default: 1e-3)",
    )
    made.add_argument(
        "--device",
        choices=("auto", "cpu", "sim"),
        default="auto",
        help="where --diff plays: NumPy, or simulation of the CUDA that the texts become, which compares outputs only "
        "(default: simulation of gpu and cu text, NumPy for the others)",
    )
    made.add_argument(
        "--arch",
        choices=("sm80", "sm90"),
        default="sm90",
        help="what region text is planned for where it is simulated (default: sm90)",
    )
    feed_options(made, ("--data", "--inputs"), has_out=False, seed=0)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read text of any stage and verify it; silent with 0 when it holds, diagnostics with 1 when not."""
    return run("tiny-check", parser().parse_args(argv), _body)


def _body(session: Session) -> int | None:
    if session.args.diff:
        from .diff import diff

        session.write(diff(session))
        return None
    if session.args.verify:
        from .certify import verify

        session.write(verify(session))
        return None
    language, module = any_module(session)
    diags = session.timed("check", lambda: language.check(module))
    if session.args.proofs:
        _write_proofs(session, language.STAGE, module, diags)
    session.must_hold(diags)
    session.must_hold(session.timed("validate", lambda: language.validate(module)))
    if session.args.report:
        _write_report(session, language.STAGE, module)
    if session.args.certify:
        from .certify import certify

        session.write(certify(session, language.STAGE, module))
    return None


def _write_report(session: Session, stage: str, module: Any) -> None:
    """Print the report of a text that holds. Plans are lowered for it; CUDA carries no kernels, but their regions.
    Raises Refused (E1480 a text before region)."""
    from ..analysis.report import as_json, report_of, show_report
    from ..lower import lowering_of
    from .playback import PROGRAMS

    if stage in ("tiny", "index", "poly"):
        raise refuse("E1480", what="--report", stage=stage)
    made = session.timed("lower", lambda: lowering_of("gpu").lower(module)) if stage == "plan" else module
    kernels = made.kernels if stage in ("plan", "gpu") else ()
    report = session.timed("report", lambda: report_of(PROGRAMS[stage](module), kernels))
    if session.args.report == "json":
        session.write(json.dumps(as_json(report), ensure_ascii=False, indent=2) + "\n")
    else:
        session.write(show_report(report))


def _write_proofs(session: Session, stage: str, module: Any, diags: Sequence[Diag]) -> None:
    """Print the proofs of a text that holds but for them; on stderr where one is open, with a point at which it fails,
    since a text that is refused prints nothing on stdout."""
    from ..analysis.proofs import PROVEN, proofs_of
    from .playback import PROGRAMS

    if stage in ("tiny", "index", "poly"):
        raise refuse("E1480", what="--proofs", stage=stage)
    session.must_hold([d for d in diags if d.code not in PROVEN])
    text = session.timed("proofs", lambda: proofs_of(PROGRAMS[stage](module)))
    if stage in ("plan", "gpu", "cu"):
        from ..analysis.coverage import coverage_of

        text += "\n" + session.timed("coverage", lambda: coverage_of(module))
    if any(d.is_error for d in diags):
        tell(text)
    else:
        session.write(text)
