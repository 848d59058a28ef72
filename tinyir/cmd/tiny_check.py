"""tiny-check: every invariant of a text's language, for any stage."""

from __future__ import annotations

from typing import Sequence

from ..kit.cli import Session, parser_of, run
from .stage import any_module


def main(argv: Sequence[str] | None = None) -> int:
    """Read text of any stage and verify it; silent with 0 when it holds, diagnostics with 1 when not."""
    parser = parser_of("tiny-check", "Verify a text of any stage against the invariants of its language.", "text of any stage", has_output=False)

    def body(session: Session) -> None:
        language, module = any_module(session)
        session.must_hold(session.timed("check", lambda: language.check(module)))

    return run("tiny-check", parser.parse_args(argv), body)
