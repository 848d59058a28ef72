"""The documents as a site: `python docs/build.py OUT`, with `pip install '.[docs]'`.

Every Markdown file keeps its path under OUT/source, so that links between them are those of the repository. Sphinx
makes OUT/html of them, and man pages of the commands in OUT/man, and fails on a link that leads nowhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
GUIDES = (
    "tutorial",
    "python",
    "messages",
    "languages",
    "extending",
    "editors/README",
    "design",
    "performance",
    "measuring",
    "trust",
    "SECURITY",
    "CONTRIBUTING",
    "CHANGELOG",
)
CONFIGURATION = """\
project = "tinyir"
copyright = "the tinyir authors"
extensions = ["myst_parser"]
html_theme = "furo"
root_doc = "index"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header", "misc.highlighting_failure", "toc.not_included"]
exclude_patterns = []
"""


def write_source(source: Path) -> None:
    """Every Markdown file at its own path, a page that leads to all, and Sphinx's configuration."""
    for pattern in ("*.md", "docs/**/*.md", "samples/*/README.md", "tinyir/explain/*.md", "tinyir/explain/ja/*.md"):
        for page in ROOT.glob(pattern):
            target = source / page.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = page.read_text(encoding="utf-8")
            target.write_text(plain_fences(text) if "explain" in page.parts else text, encoding="utf-8")
    for extra in ("LICENSE", "docs/frontend.schema.json", "docs/report.schema.json"):
        if (ROOT / extra).exists():
            shutil.copy(ROOT / extra, source / extra)
    (source / "index.md").write_text(index(source), encoding="utf-8")
    manuals = write_manuals(source)
    (source / "conf.py").write_text(CONFIGURATION + f"man_pages = {manuals!r}\n", encoding="utf-8")


def plain_fences(text: str) -> str:
    """A page of a diagnostic with its examples as plain text: their first words are a command, not a language."""
    return text.replace("```fails: ", "```text\n$ ").replace("```corrected: ", "```text\n$ ")


def write_manuals(source: Path) -> list[tuple[str, str, str, str, int]]:
    """A page for each command under source/man; what Sphinx makes man pages of."""
    from tinyir.cmd.pages import PAGES, parsers

    (source / "man").mkdir()
    found = []
    every, *sections = next(page for page in PAGES if page.name == "commands").made("en")
    for section in sections:
        parser = parsers()[section.title]
        body = section.body.replace("# ", "  # ")
        text = f"# {section.title}\n\n## Options and examples\n\n{body}\n## Of all commands\n\n{every.body}"
        (source / "man" / f"{section.title}.md").write_text(text, encoding="utf-8")
        found.append((f"man/{section.title}", section.title, str(parser.description), "", 1))
    return found


def index(source: Path) -> str:
    """The first page."""
    guides = [f"docs/{name}" for name in GUIDES if (source / "docs" / f"{name}.md").exists()]
    references = [
        str(p.relative_to(source).with_suffix("")) for p in sorted((source / "docs" / "reference").rglob("*.md"))
    ]
    samples = sorted(str(p.relative_to(source).with_suffix("")) for p in (source / "samples").rglob("*.md"))
    trees = [tree("Guides", ["README", *guides]), tree("Reference", references), tree("Samples", samples)]
    return "# tinyir\n\n" + "\n".join(trees)


def tree(caption: str, pages: list[str]) -> str:
    """A list of pages, as MyST writes one. Explanations are in none: they are reached from the page of diagnostics, and
    hundreds of lines in the navigation of each page take minutes."""
    return f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n"


def main() -> int:
    """Write the source, run Sphinx on it; its exit code."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs")
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    write_source(source)
    codes = [
        subprocess.run(
            [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", kind, str(source), str(out / kind)]
        ).returncode
        for kind in ("html", "man")
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
