"""The page of diagnostics: every code with its name and its message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..kit.diag import EXPLAIN, catalogue
from .page import Section, table

_GROUPS = (
    ("E00", {"en": "Files and texts", "ja": "ファイルとテキスト"}),
    ("E01", {"en": "Models", "ja": "モデル"}),
    ("E02", {"en": "Names", "ja": "名前"}),
    ("E10", {"en": "Shapes and dtypes", "ja": "形と dtype"}),
    ("E11", {"en": "Movement", "ja": "移動"}),
    ("E12", {"en": "Book and blocks", "ja": "book とブロック"}),
    ("E13", {"en": "Signature", "ja": "シグネチャ"}),
    ("E14", {"en": "Regions", "ja": "リージョン"}),
    ("E15", {"en": "Plans", "ja": "プラン"}),
    ("E16", {"en": "Kernels", "ja": "カーネル"}),
    ("E17", {"en": "Running", "ja": "実行"}),
    ("W", {"en": "Warnings", "ja": "警告"}),
    ("R", {"en": "Remarks", "ja": "注記"}),
)
BLOCK = re.compile(r"^```(fails|corrected): .*?^```\n", re.M | re.S)
CAPTIONS = {"fails": "次の入力で出ます:", "corrected": "次の入力では出ません:"}
_HEADS = {"en": ("code", "name", "message"), "ja": ("コード", "名前", "メッセージ")}
_FOLDERS = {"en": "../../tinyir/explain", "ja": "../../../tinyir/explain/ja"}  # from the page


def explanation(code: str, lang: str) -> str:
    """The page of a code, as `tiny-explain` prints it. In Japanese its words are in a file of their own, and its
    examples those of the English page."""
    page = (EXPLAIN / f"{code}.md").read_text(encoding="utf-8")
    if lang == "en":
        return page
    said = (EXPLAIN / lang / f"{code}.md").read_text(encoding="utf-8")
    return said + "".join(f"\n{CAPTIONS[m[1]]}\n\n{m[0]}" for m in BLOCK.finditer(page))


def code_of(topic: str) -> str | None:
    """The code that a word means, itself or by its name, such as `BroadcastMismatch`."""
    low = topic.lower()
    return next((c for c, entry in catalogue().items() if low in (c.lower(), entry["kind"].lower())), None)


def sections(lang: str) -> Iterator[Section]:
    """The page in a language: a table for each kind; what a code means is on a page of its own."""
    for prefix, titles in _GROUPS:
        rows = [
            (f"[{code}]({_FOLDERS[lang]}/{code}.md)", entry["kind"], _shown(entry["why"][lang]))
            for code, entry in sorted(catalogue().items())
            if code.startswith(prefix)
        ]
        yield Section(titles[lang], table(_HEADS[lang], rows), level=2)


def _shown(sentence: str) -> str:
    """A message with its facts in italics."""
    return re.sub(r"\{(\w+)\}", r"*\1*", sentence.replace("*", "\\*").replace("<", "&lt;"))
