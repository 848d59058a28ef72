"""tiny-dot: the graph of a text of any stage, or of a model, for Graphviz."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..ir.pipeline import STAGES
from ..kit.cli import Session, parser_of, run
from ..kit.phrase import Phrase
from .source import must_hold, read_source, shape_option
from .stage import language_of, stage_of


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-dot",
        "The graph of a text of any stage, or of a model, as Graphviz DOT.",
        "a model or text of any stage",
        examples=(
            ("tiny-dot m.region > m.dot", "regions and the buffers between them; `dot -Tsvg m.dot` draws them"),
            ("tiny-dot model.json -o m.dot", "what a model computes, op by op"),
        ),
    )
    shape_option(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read a model or text of any stage, print its graph; the exit code."""
    return run("tiny-dot", parser().parse_args(argv), _body)


def _body(session: Session) -> None:
    from ..view.dot import dot_of
    from ..view.graph import graph_of

    text = read_source(session, Phrase("a model, or text of any stage"))
    stage = stage_of(text)
    if stage not in STAGES:
        from .. import front

        stage, module = "tiny", session.timed("parse", lambda: front.read(text, session.file, session.notes))
    else:
        module = session.timed("parse", lambda: language_of(stage).parse(text))
    must_hold(session, session.timed("check", lambda: language_of(stage).check(module)))
    session.write(dot_of(graph_of(stage, module)))
