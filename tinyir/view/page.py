"""The page: data, styles and script in one HTML file that needs no network. Layout is dagre's (`assets/dagre.min.js`,
MIT); the data are deflated, since a network's texts are long and alike."""

from __future__ import annotations

import base64
import html
import json
import os
import tomllib
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..kit.files import write_whole
from ..kit.records import dataclass

PAGE = Path(__file__).resolve().parent / "assets"


def page_of(data: dict[str, Any]) -> str:
    """The HTML of a page, its own words in the language of the data."""
    data = {**data, "words": words_in(data["lang"])}
    packed = base64.b64encode(zlib.compress(json.dumps(data, ensure_ascii=False).encode("utf-8"), 9)).decode("ascii")
    license_ = (PAGE / "dagre.LICENSE.txt").read_text(encoding="utf-8")
    parts = {
        "TITLE": html.escape(f"{data['name']} - tinyir"),
        "STYLE": _file("view.css"),
        "DATA": packed,
        "LAYOUT": f"/* dagre\n{license_}*/\n"
        + _file("dagre.min.js").replace("//# sourceMappingURL=dagre.min.js.map", ""),
        "SCRIPT": "\n".join(_file(name) for name in ("names.js", "graph.js", "charts.js", "view.js")),
    }
    page = _file("view.html")
    for word, text in parts.items():
        before, after = page.split(f"@{word}@")
        page = before + text + after
    return page


def words_in(lang: str) -> dict[str, str]:
    """The words of the page in a language, by the English ones; none for English."""
    return {} if lang == "en" else tomllib.loads(_file(f"{lang}.toml"))


@dataclass(frozen=True, slots=True)
class View:
    """A page, which a notebook shows in a frame."""

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file. Raises Refused (E0009)."""
        write_whole(Path(path), self.html.encode("utf-8"))

    def _repr_html_(self) -> str:
        frame = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{frame}" style="width:100%;height:640px;border:1px solid #ccc"></iframe>'


def table_of_program(
    name: str,
    device: str,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    launches: Iterable[tuple[str, str, str, str]],
) -> str:
    """What a notebook shows of a program: its signature, and its launches with their regions, operations and bytes."""
    sides = "".join(
        f"<tr><td>{side}</td><td><code>{html.escape(tensor)}</code></td><td><code>{html.escape(type_)}</code></td></tr>"
        for side, tensors in (("in", inputs), ("out", outputs))
        for tensor, type_ in tensors.items()
    )
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in launches)
    head = "".join(f"<th>{word}</th>" for word in ("launch", "regions", "operations", "bytes"))
    return (
        f"<b><code>{html.escape(name)}</code></b> on {html.escape(device)}<table>{sides}</table>"
        f"<details><summary>launches</summary><table><tr>{head}</tr>{rows}</table></details>"
    )


def _file(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")
