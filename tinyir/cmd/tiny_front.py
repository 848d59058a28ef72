"""tiny-front: a model in any language that a front end reads, as tiny text."""

from __future__ import annotations

from typing import Any, Sequence

from ..kit.cli import Session, filter_main
from .source import read_source, shape_option
from .stage import language_of


def main(argv: Sequence[str] | None = None) -> int:
    """Read a model, print tiny text; the exit code."""
    return filter_main(
        argv,
        name="tiny-front",
        summary="A model, as JSON or ONNX, in; what it computes, as tiny text, out.",
        reads="the model",
        read=_read,
        target=lambda: language_of("tiny"),
        lower=lambda module, args, notes: module,
        options=shape_option,
    )


def _read(session: Session) -> Any:
    from .. import front

    text = read_source(session, "a model, such as front-end JSON")
    module = session.timed("parse", lambda: front.read(text, session.file))
    session.must_hold(language_of("tiny").check(module))
    return module
