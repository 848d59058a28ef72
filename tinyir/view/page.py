"""The page: data, styles and script in one HTML file that needs no network. Layout is dagre's (`assets/dagre.min.js`,
MIT); the data are deflated, since a network's texts are long and alike."""

from __future__ import annotations

import base64
import html
import json
import zlib
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent / "assets"


def page_of(data: dict[str, Any]) -> str:
    """The HTML of a page."""
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


def _file(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


__all__ = ["page_of"]
