"""tiny-opt: any stage in, the same stage out. With no pass named it is a formatter."""

from __future__ import annotations

from typing import Sequence

from ..kit.cli import Session, parser_of, run
from .stage import any_module


def main(argv: Sequence[str] | None = None) -> int:
    """Read text of any stage, print it in canonical form; the exit code."""
    parser = parser_of("tiny-opt", "Text of any stage in canonical form.", "text of any stage")

    def body(session: Session) -> None:
        language, module = any_module(session)
        session.must_hold(language.check(module))
        session.write(language.show(module))

    return run("tiny-opt", parser.parse_args(argv), body)
