"""tiny-explain: a diagnostic, with a failing and a corrected example; or any entry of the reference, by its name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from ..ir.unknown import nearest
from ..kit.cli import Session, parser_of, run
from ..kit.diag import Refused, catalogue, refuse
from ..kit.phrase import Phrase
from ..kit.render import draw_page


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = parser_of(
        "tiny-explain",
        "What a diagnostic, an op, a plan field, a statement or another word of a text means.",
        None,
        examples=(
            ("tiny-explain E1001", "what a diagnostic means, with its fix"),
            ("tiny-explain MatMul", "an op of front-end JSON: shapes, attributes, an example"),
        ),
    )
    made.add_argument(
        "topic",
        nargs="?",
        metavar="TOPIC",
        help="a code or a name, such as E1001, BroadcastMismatch, MatMul, split_k or tma_load; without one all codes "
        "are listed",
    )
    made.add_argument("--list", action="store_true", help="list every topic")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Print the entries of a topic, or every code with its kind; the exit code."""

    def body(session: Session) -> None:
        topic = session.args.topic
        if session.args.list:
            session.write("".join(f"{name}\n" for name in _topics()))
        elif topic is None:
            session.write("".join(f"{c}  {entry['kind']}\n" for c, entry in sorted(catalogue().items())))
        else:
            _show(session, "\n".join(_entries(topic, session.args.lang)))

    return run("tiny-explain", parser().parse_args(argv), body)


def _topics() -> Iterable[str]:
    from ..reference import names
    from .pages import PAGES

    return dict.fromkeys([*(word for c, e in sorted(catalogue().items()) for word in (c, e["kind"])), *names(PAGES)])


def _entries(topic: str, lang: str) -> list[str]:
    """The entries of the reference and the page of a diagnostic that are called so. Raises Refused (E0010)."""
    from ..reference import find, page_named
    from ..reference.diagnostics import code_of, explanation
    from ..reference.grammars import of_word
    from .pages import PAGES

    code = code_of(topic)
    page = [explanation(code, lang)] if code is not None else []
    if topic.upper() == code:
        return page
    found = [f"# {page.titles[lang]}\n\n{section.text}" for page, section in find(PAGES, topic, lang)] + page
    if not found and (written := of_word(topic.removesuffix(":"), lang)) is not None:
        found = [f"# {page_named(PAGES, 'languages').titles[lang]}\n\n{written.text}"]
    if not found and len(topic.split()) > 1:  # a line of a text: what its words mean
        found = [entry for word in dict.fromkeys(topic.split()) for entry in _known(word, lang)]
    if not found:
        close = nearest(topic, list(_topics()))
        raise refuse("E0010", at=topic, given=topic, near=", ".join(close) or Phrase("none like it"))
    return found


def _known(topic: str, lang: str) -> list[str]:
    """The entries of a topic; none where there are none."""
    try:
        return _entries(topic, lang)
    except Refused:
        return []


def _show(session: Session, text: str) -> None:
    """The Markdown as it is; drawn where a person reads it on a terminal."""
    if sys.stdout is not None and sys.stdout.isatty() and not session.args.output:
        draw_page(text)
    else:
        session.write(text)
