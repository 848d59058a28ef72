"""tiny-play: CPU playback of a text on arrays, with NumPy: of tiny text, or of the regions that a later text carries."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..ir.pipeline import STAGES
from ..kit.cli import Session, parser_of, run
from .feed import arrays_for, feed_options, summary_of
from .stage import any_module, stage_of

# Where the program to play stands in a module of each stage.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "tiny": lambda m: m,
    "index": lambda m: m.tiny,
    "poly": lambda m: m.index.tiny,
    "region": lambda m: m,
    "plan": lambda m: m.program,
    "gpu": lambda m: m.plans.program,
    "cu": lambda m: m.region,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Play a text of any stage on arrays and print a summary of the outputs; the exit code."""
    parser = parser_of("tiny-play", "Play a text of any stage on arrays, on the CPU with NumPy.", "text of any stage", has_output=False)
    feed_options(parser)
    return run("tiny-play", parser.parse_args(argv), _body)


def _body(session: Session) -> None:
    language, module = any_module(session)
    session.must_hold(language.check(module))
    stage = stage_of(session.text) or ""
    program = PROGRAMS[stage](module)
    arrays = arrays_for(program.model, session.args)
    if STAGES.index(stage) < STAGES.index("region"):
        from ..play.tiny import play
    else:
        from ..play.region import play
    outputs = session.timed("play", lambda: play(program, arrays))
    if session.args.out:
        from ..runtime.arrays import write_arrays

        write_arrays(session.args.out, outputs)
    session.write(summary_of(outputs))
