"""tiny-front: a model in any language that a front end reads, as tiny text; or corrected, or in another of those
languages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..kit.cli import Session, parser_of, run
from ..kit.diag import Diag, Refused
from ..kit.files import write_whole
from ..kit.held import mark
from ..kit.phrase import Phrase
from ..kit.spelling import with_edits
from .source import must_hold, read_source, shape_option
from .stage import language_of

SUMMARY = "A model in: JSON, ONNX, Core IR, the graph DSL, or tiny text. What it computes, as tiny text, out."


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-front",
        SUMMARY,
        "the model",
        examples=(
            ("tiny-front model.json > m.tiny", "a model in any language that is read, as tiny text"),
            ("tiny-front --fix --in-place model.json", "apply the corrections that messages offer, to the file itself"),
        ),
    )
    shape_option(made)
    _options(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read a model, print tiny text, or what an option asks for; the exit code."""
    options = parser()
    args = options.parse_args(argv)
    if args.in_place and not (args.fix and args.file and args.file != "-"):
        options.error("argument --in-place: it writes what --fix corrects back to FILE")
    return run("tiny-front", args, _fix if args.fix else _convert)


def _options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--fix",
        action="store_true",
        help="print the source instead, with every correction applied that a machine can apply",
    )
    parser.add_argument("--in-place", action="store_true", help="with --fix: write the source back to FILE")
    group.add_argument(
        "--to-coreir", action="store_true", help="print Core IR instead, where the model can be said in it"
    )
    group.add_argument(
        "--to-dsl",
        action="store_true",
        help="print a program of the graph DSL instead, which reads back as the same tiny text",
    )


def _convert(session: Session) -> None:
    from .. import front

    text = read_source(session, Phrase("a model, such as front-end JSON"))
    if session.args.to_coreir and front.language_of(text) == "coreir":
        from ..front import coreform, coreir

        session.write(coreir.show(coreform.canonical(coreir.parse(text))))
        return
    tiny = language_of("tiny")
    try:
        module = session.timed("parse", lambda: front.read(text, session.file, session.notes))
        found = session.timed("check tiny", lambda: tiny.check(module))
        must_hold(session, found)
    except Refused as fault:
        if fault.diags and all(d.edit is not None for d in with_edits(fault.diags, text, has_names=False)):
            count = len(fault.diags) + sum(d.edit is not None for d in session.notes)
            session.notes.append(Diag("R3003", facts={"count": count}))
        raise
    printed = session.timed("show", lambda: _printed(session.args, tiny, module))
    if not found and not session.args.to_coreir and not session.args.to_dsl:
        mark(printed)
    session.write(printed)


def _printed(args: argparse.Namespace, tiny: Any, module: Any) -> str:
    if args.to_coreir:
        from ..front.to_coreir import coreir_of

        return coreir_of(module)
    if args.to_dsl:
        from ..front.to_dsl import dsl_of

        return dsl_of(module)
    return tiny.show(module)


def _fix(session: Session) -> None:
    from ..front.corrections import corrected

    text = read_source(session, Phrase("a model, such as NodeId JSON"))
    found, done = session.timed("fix", lambda: corrected(text, session.file))
    session.args.remarks = session.args.remarks or "text"  # what is changed is always said
    session.notes += [Diag("R3002", d.at, {"code": d.code}, d.span) for d in done]
    if session.args.in_place:
        if found != text:
            write_whole(Path(session.file), found.encode("utf-8"))
    else:
        session.write(found)
