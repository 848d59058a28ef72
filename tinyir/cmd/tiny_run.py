"""tiny-run: a .cu text on arrays: on the GPU, as CPU playback of the regions it carries, or as simulation of its CUDA
text."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..kit.cli import Session, parser_of, run, tell
from ..kit.diag import refuse
from ..kit.files import make_folder, write_whole
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from .feed import arrays_for, feed_options, summary_of
from .stage import read_module

if TYPE_CHECKING:
    from ..ir.model import Model
    from ..runtime.run import Report


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-run",
        "Run a .cu text on arrays.",
        "cu text",
        has_output=False,
        examples=(
            ("tiny-run k.cu --inputs in.npz --out out.npz", "run on arrays, on a GPU if there is one"),
            (
                "tiny-run k.cu --random 7 --check --device=sim",
                "run the CUDA text itself on the CPU and compare it with playback",
            ),
        ),
    )
    feed_options(made)
    made.add_argument(
        "--states",
        metavar="FILE.npz",
        help="states by their names: read from the file where there is one, and written there after the run",
    )
    made.add_argument(
        "--device",
        choices=("auto", "cuda", "cpu", "sim"),
        default="auto",
        help="where: a GPU, NumPy playback, or the CUDA text itself on the CPU (default: a GPU if there is one, else "
        "playback)",
    )
    made.add_argument("--check", action="store_true", help="compare the outputs with playback")
    made.add_argument(
        "--rtol",
        type=float,
        metavar="X",
        help="relative tolerance of --check (default: 1e-3, and what roundings on the way do)",
    )
    made.add_argument(
        "--atol",
        type=float,
        metavar="X",
        help="absolute tolerance of --check (default: 1e-3, and what roundings on the way do)",
    )
    made.add_argument("--bench", action="store_true", help="time the program on the GPU and print the median")
    made.add_argument(
        "--profile", action="store_true", help="time each launch on the GPU and print a table, the slowest first"
    )
    made.add_argument(
        "--log", metavar="FILE.csv", help="append what --bench and --profile time here, in the columns of tiny-tune"
    )
    made.add_argument(
        "--memory",
        action="store_true",
        help="run nothing: print what memory the program takes on a GPU at these sizes (--shapes, --size), by buffer "
        "and lifetime",
    )
    made.add_argument(
        "--extract",
        metavar="LAUNCH",
        help="instead of a run write one launch alone to the folder of -o: its text, its arrays, a command that "
        "repeats it",
    )
    made.add_argument("-o", dest="folder", metavar="DIR", help="with --extract: the folder (default: LAUNCH)")
    made.add_argument(
        "--timeline",
        metavar="FILE",
        help="write a run to FILE as a Chrome trace: launches, copies and waits on the GPU",
    )
    made.add_argument("--seed", type=int, default=0, help="order of threads in the simulation (default: 0, in order)")
    made.add_argument(
        "--limit",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="give up a launch that takes longer than this, in the simulation or on the GPU (default: never)",
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program on arrays and print a summary of the outputs; the exit code."""
    return run("tiny-run", parser().parse_args(argv), _body)


def _body(session: Session) -> None:
    args: argparse.Namespace = session.args
    module = read_module(session, "cu")
    if args.memory:
        from ..runtime.arrays import sizes_for
        from ..runtime.memory import memory_of, show

        session.write(show(memory_of(module, sizes_for(module.region.model, args.shapes, dict(args.size)))))
        return
    from ..runtime.arrays import write_arrays
    from ..runtime.run import run as run_on

    if args.states and not module.region.model.states():
        of, given = Phrase("models with states"), Phrase("a model without one")
        raise refuse("E0018", "--states", options="--states", of=of, given=given, advice=Phrase("leave it out"))
    arrays, sizes = arrays_for(module.region.model, args, module.region)
    if args.extract:
        session.write(_extracted(session, module, arrays, sizes))
        return
    outputs, report = run_on(
        session.text,
        arrays,
        device=args.device,
        check=args.check,
        bench=args.bench,
        is_profiled=args.profile,
        is_traced=bool(args.timeline),
        rtol=args.rtol,
        atol=args.atol,
        seed=args.seed,
        limit=args.limit,
        module=module,
        symbols=sizes,
        see=functools.partial(write_arrays, args.out) if args.out else None,
    )
    tell(f"tiny-run: {report.description}")
    said = [d for d in report.notes if d.code.startswith("R")]
    for note in said:  # nobody has to ask where it ran: the user must know it
        tell(f"tiny-run: {note.why(args.lang)}")
    if args.timeline:
        from ..runtime.timeline import trace_of

        write_whole(Path(args.timeline), trace_of(report.moments).encode("utf-8"))
    if args.states:
        new = {state: outputs[output] for state, output in module.region.model.states().items()}
        write_arrays(args.states, new)
    if args.log:
        _log(Path(args.log), module, report)
    lines = [summary_of(outputs)]
    lines += [f"check: {difference}\n" for difference in report.differences]
    peaks = _peaks_of(report, module.region.model)
    if report.timing is not None:
        share = report.timing.share_of(peaks.tflops, peaks.gbs) if peaks else None
        lines.append(
            f"bench: {report.timing}{'' if share is None else f'  {share:.1%} of the limit of {peaks.title}'}\n"
        )
    if report.launches:
        from ..runtime.profile import table_of

        lines.append(table_of(report.launches, peaks.tflops if peaks else None, peaks.gbs if peaks else None))
    session.write("".join(lines))


def _log(path: Path, module: Any, report: Report) -> None:
    from ..runtime.compile import find_compiler
    from ..tune.measured import rows_of
    from ..tune.store import append_log

    append_log(path, rows_of(module, report, find_compiler().name))


def _extracted(session: Session, module: Any, arrays: dict[str, Any], sizes: dict[str, int]) -> str:
    """Write a launch alone; what was written. Raises Refused (E0009, E1746, E17xx)."""
    from ..ir import manifest
    from ..runtime.arrays import write_arrays
    from ..runtime.extract import arrays_of, extracted

    args = session.args
    case = extracted(module, args.extract)
    session.must_hold(manifest.check(case))
    given = session.timed("play", lambda: arrays_of(module, case, arrays, sizes))
    folder = Path(args.folder or args.extract)
    make_folder(folder)
    line = "tiny-run launch.cu --inputs inputs.npz --check"
    write_whole(folder / "launch.cu", manifest.show(case).encode("utf-8"))
    write_arrays(str(folder / "inputs.npz"), given)
    write_whole(folder / "run.sh", f'#!/bin/sh\ncd "$(dirname "$0")" && {line} "$@"\n'.encode())
    return f"{folder}: launch.cu, inputs.npz, run.sh: {line}\n"


@dataclass(frozen=True, slots=True)
class _Peaks:
    """What a card can do at best on operands of the model's dtypes."""

    title: str
    tflops: float
    gbs: float


def _peaks_of(report: Report, model: Model) -> _Peaks | None:
    """Those of the card that the program ran on, when there is a model of it."""
    from ..target.device import device_titled, get_device

    name = device_titled(report.description.split(" (", 1)[0])
    if name is None:
        return None
    card = get_device(name)
    dtypes = [t.type.dtype.name for t in model.inputs]
    return _Peaks(
        card.title,
        max(
            (card.peak[f"mma_{name}"] for name in dtypes if f"mma_{name}" in card.peak), default=card.peak["ffma_fp32"]
        ),
        card.dram_gbs,
    )
