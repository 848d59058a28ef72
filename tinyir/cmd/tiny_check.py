"""tiny-check: every invariant of a text's language, for any stage; and that book and blocks mean what the program does."""

from __future__ import annotations

from typing import Any, Sequence

from ..kit.cli import Session, parser_of, run
from ..kit.diag import Diag
from .stage import any_module


def main(argv: Sequence[str] | None = None) -> int:
    """Read text of any stage and verify it; silent with 0 when it holds, diagnostics with 1 when not."""
    parser = parser_of("tiny-check", "Verify a text of any stage against the invariants of its language.", "text of any stage", has_output=False)

    def body(session: Session) -> None:
        language, module = any_module(session)
        session.must_hold(session.timed("check", lambda: language.check(module)))
        session.must_hold(session.timed("prove", lambda: _validated(language.STAGE, module)))

    return run("tiny-check", parser.parse_args(argv), body)


def _validated(stage: str, module: Any) -> list[Diag]:
    """What translation validation finds, for the stages that carry the text they were made from."""
    if stage not in ("index", "poly"):
        return []
    from ..analysis.validate import validate_index
    from ..analysis.validate_blocks import validate_poly

    return validate_index(module) if stage == "index" else [*validate_index(module.index), *validate_poly(module)]
