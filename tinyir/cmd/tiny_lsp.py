"""tiny-lsp: a language server for every text, which an editor starts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..kit.cli import Session, parser_of, run


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    return parser_of(
        "tiny-lsp",
        "A language server for the texts of all stages and for models; an editor starts it and speaks to it on stdin.",
        None,
        has_output=False,
        examples=(
            ("tiny-lsp", "serve an editor; docs/editors says how editors are told of it"),
            ("tiny-lsp --lang=ja", "with messages in Japanese"),
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the editor ends; the exit code."""
    options = parser()
    args = options.parse_args(argv)
    try:
        from ..lsp.server import server
    except ImportError as fault:
        options.error(f"it needs pygls ({fault}): pip install 'tinyir[lsp]'")

    def body(session: Session) -> None:
        server(session.args.lang).start_io(sys.stdin.buffer, sys.stdout.buffer)

    return run("tiny-lsp", args, body)
