"""tiny-explain: a diagnostic, with a failing and a corrected example."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.verify import nearest
from ..kit.cli import Session, parser_of, run
from ..kit.diag import EXPLAIN, catalogue, refuse
from ..kit.phrase import Phrase

BLOCK = re.compile(r"^```(fails|corrected): .*?^```\n", re.M | re.S)
CAPTIONS = {"fails": "次の入力で出ます:", "corrected": "次の入力では出ません:"}


def page_of(code: str, lang: str) -> str:
    """The page of a code. In Japanese its words are in a file of their own, and its examples those of the English
    page."""
    page = (EXPLAIN / f"{code}.md").read_text(encoding="utf-8")
    if lang == "en":
        return page
    words = (EXPLAIN / lang / f"{code}.md").read_text(encoding="utf-8")
    return words + "".join(f"\n{CAPTIONS[m[1]]}\n\n{m[0]}" for m in BLOCK.finditer(page))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page of a code, or every code with its kind; the exit code."""
    parser = parser_of("tiny-explain", "What a diagnostic means, with a failing and a corrected example.", None)
    parser.add_argument("code", nargs="?", metavar="CODE", help="such as E1001; without it every code is listed")

    def body(session: Session) -> None:
        code = session.args.code
        if code is None:
            session.write("".join(f"{c}  {entry['kind']}\n" for c, entry in sorted(catalogue().items())))
            return
        if code.upper() not in catalogue():
            raise refuse(
                "E0010", at=code, given=code, near=", ".join(nearest(code, catalogue())) or Phrase("none like it")
            )
        session.write(page_of(code.upper(), session.args.lang))

    return run("tiny-explain", parser.parse_args(argv), body)
