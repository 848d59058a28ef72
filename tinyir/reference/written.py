"""Every file under `docs/` that is made of tables, with its text."""

from __future__ import annotations

from . import highlight, schema
from .page import LANGUAGES, Page, text_of

_HEADS = {
    "en": ("Reference", "Made of the tables that the code reads. `tiny-explain NAME` prints an entry."),
    "ja": ("リファレンス", "コードが読む表から作ったもの。`tiny-explain --lang=ja 名前` で項目を表示できる。"),
}


def written(pages: tuple[Page, ...]) -> dict[str, str]:
    """The texts by path in the repository."""
    found = {"docs/frontend.schema.json": schema.text(), **highlight.written()}
    for lang in LANGUAGES:
        folder = "docs/reference" + ("" if lang == "en" else f"/{lang}")
        title, text = _HEADS[lang]
        listed = "\n".join(f"- [{page.titles[lang]}]({page.name}.md)" for page in pages)
        found[f"{folder}/index.md"] = f"# {title}\n\n{text}\n\n{listed}\n"
        found |= {f"{folder}/{page.name}.md": text_of(page, lang) for page in pages}
    return found
