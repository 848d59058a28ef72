"""tiny-play: CPU playback of a text on arrays, with NumPy: of tiny text, of a book, or of the regions that a later text
carries."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..kit.cli import Session, parser_of, run
from .feed import arrays_for, feed_options, summary_of
from .playback import PROGRAMS, model_of, play
from .stage import any_module


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-play",
        "Play a text of any stage on arrays, on the CPU with NumPy.",
        "text of any stage",
        has_output=False,
        examples=(
            ("tiny-play m.tiny --inputs in.npz --out out.npz", "play on arrays"),
            ("tiny-play m.region --random 7", "play on random arrays and print a line for each output"),
        ),
    )
    feed_options(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Play a text of any stage on arrays and print a summary of the outputs; the exit code."""
    return run("tiny-play", parser().parse_args(argv), _body)


def _body(session: Session) -> None:
    language, module = any_module(session)
    session.must_hold(language.check(module))
    arrays, sizes = arrays_for(model_of(language.STAGE, module), session.args, PROGRAMS[language.STAGE](module))
    outputs = session.timed("play", lambda: play(language.STAGE, module, arrays, sizes=sizes))
    if session.args.out:
        from ..runtime.arrays import write_arrays

        write_arrays(session.args.out, outputs)
    session.write(summary_of(outputs))
