"""tinyc: the whole chain in one process; the same bytes as the filters."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..ir.pipeline import STAGES
from ..kit.cli import Session, must_be_faultless, parser_of, run, write_whole
from ..kit.diag import refuse
from ..kit.phrase import Phrase
from . import tiny_plan, tiny_region
from .source import must_hold, read_source, shape_option
from .stage import language_of, lowered, stage_of

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
    made.add_argument("--emit", choices=STAGES, default="cu", help="the stage to print (default: cu)")
    made.add_argument(
        "--dump",
        metavar="STAGES",
        default="",
        help=f"also write these stages to files, comma-separated, of {', '.join(DUMPS)}",
    )
    made.add_argument(
        "--dump-dir", metavar="DIR", default=".", help="where the dumps go, as MODEL.STAGE (default: here)"
    )
    shape_option(made)
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

    def body(session: Session) -> None:
        text = read_source(session, Phrase("a model, or text of any stage"))
        for stage, printed in _chain(session, text, args.emit):
            if stage in {DUMPS[word] for word in wanted}:
                write_whole(
                    Path(args.dump_dir) / f"{Path(session.file).stem or 'model'}.{stage}", printed().encode("utf-8")
                )
            if stage == args.emit:
                session.write(session.timed("show", printed))

    return run("tinyc", args, body)


def _chain(session: Session, text: str, last: str) -> Any:
    """(stage, a function that prints it) for each stage from the input's to `last`."""
    stage = stage_of(text)
    if stage is None:
        from .. import front

        yield "json", lambda: text
        stage, module = "tiny", session.timed("front", lambda: front.read(text, session.file, session.notes))
    elif stage not in STAGES:
        raise refuse(
            "E0004",
            given=stage,
            stage="tiny",
            hint=Phrase("feed a model or text of a stage: {stages}", stages=", ".join(STAGES)),
        )
    else:
        given = stage
        module = session.timed("parse", lambda: language_of(given).parse(text))
    must_hold(session, session.timed(f"check {stage}", lambda: language_of(stage).check(module)))
    must_hold(session, session.timed(f"validate {stage}", lambda: language_of(stage).validate(module)))
    if STAGES.index(stage) > STAGES.index(last):
        raise refuse("E0004", given=stage, stage=last, hint=Phrase("this text is already past {last}", last=last))
    yield stage, _printer(stage, module)
    args = session.args
    keywords = {"region": tiny_region.chosen(args), "plan": tiny_plan.chosen(args)}
    for following in STAGES[STAGES.index(stage) + 1 : STAGES.index(last) + 1]:
        chosen = keywords.get(following, {})
        module = session.timed(
            following,
            lambda: lowered(following, module, session.notes, bool(args.remarks), chosen),  # noqa: B023
        )
        if following == "plan" and args.tuned:
            module = session.timed("tuned", lambda: tiny_plan.with_tuned(module, args, session.notes))  # noqa: B023
        found = session.timed(f"check {following}", lambda: language_of(following).check(module))  # noqa: B023
        must_be_faultless(found)
        must_hold(session, found)  # the next filter of a pipe gives the warnings of what it reads
        yield following, _printer(following, module)


def _printer(stage: str, module: Any) -> Callable[[], str]:
    return lambda: language_of(stage).show(module)
