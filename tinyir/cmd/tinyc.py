"""tinyc: the whole chain in one process; the same bytes as the filters."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..ir.pipeline import STAGES
from ..kit.cli import Session, parser_of, run
from ..kit.files import make_folder, write_whole
from ..kit.phrase import Phrase
from . import tiny_plan, tiny_region
from .chain import chain
from .host import HOST, host_options, write_program
from .paranoid import Paranoid, paranoid_options
from .source import read_source, shape_option
from .stage import language_of

# The seed's words for the dumps (seed 001 section 13) beside the stages' own.
DUMPS = {
    "frontend": "json",
    "tiny": "tiny",
    "indexbook": "index",
    "index": "index",
    "poly_view": "poly",
    "poly": "poly",
    "region": "region",
    "plan": "plan",
    "gpu": "gpu",
    "cu": "cu",
}


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tinyc",
        "The whole chain in one process: a model, or text of any stage, in; CUDA, or any later stage, out.",
        "a model or text of any stage",
        examples=(
            ("tinyc model.json -o k.cu", "from a model to CUDA"),
            ("tinyc model.onnx --emit plan --dump tiny,region", "stop at a plan, and keep two of the texts on the way"),
        ),
    )
    made.add_argument(
        "--emit",
        choices=(*STAGES, HOST),
        default="cu",
        help="the stage to print (default: cu); host: write the program as C, with its header and a file of kernels "
        "and weights, to be called without Python",
    )
    made.add_argument(
        "--dump",
        metavar="STAGES",
        default="",
        help=f"also write these stages to files, comma-separated, of {', '.join(DUMPS)}",
    )
    made.add_argument(
        "--dump-dir", metavar="DIR", default=".", help="where the dumps go, as MODEL.STAGE (default: here)"
    )
    host_options(made)
    shape_option(made)
    paranoid_options(made)
    tiny_region.options(made)
    tiny_plan.options(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read a model or text of any stage, print the text of a later stage (default: cu); the exit code."""
    options = parser()
    args = options.parse_args(argv)
    wanted = [word for word in args.dump.split(",") if word]
    for word in wanted:
        if word not in DUMPS:
            options.error(f"argument --dump: {word!r} is not one of {', '.join(DUMPS)}")
    if args.size and not args.paranoid:
        options.error("argument --size: only --paranoid plays the model")

    def body(session: Session) -> None:
        text = read_source(session, Phrase("a model, or text of any stage"))
        last = "cu" if args.emit == HOST else args.emit
        doubts = Paranoid(session) if args.paranoid else None
        for stage, module in chain(session, text, last):
            if doubts is not None and stage != "json":
                doubts.look_at(stage, module)
            printed = _printer(stage, module)
            if stage in {DUMPS[word] for word in wanted}:
                make_folder(Path(args.dump_dir))
                write_whole(
                    Path(args.dump_dir) / f"{Path(session.file).stem or 'model'}.{stage}", printed().encode("utf-8")
                )
            if stage == last and args.emit == HOST:
                write_program(session, module, printed())
            elif stage == last:
                session.write(session.timed("show", printed))

    return run("tinyc", args, body)


def _printer(stage: str, module: Any) -> Callable[[], str]:
    return lambda: module if stage == "json" else language_of(stage).show(module)
