"""Each op, field, statement, rule, code and option has its entry of the reference, in both languages, and the words of
the reference are of nothing else; links lead somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyir.cmd.pages import PAGES, parsers
from tinyir.front import coreops
from tinyir.front.ops import ELEMENTWISE, FRONT_OPS
from tinyir.ir.ops import OPS
from tinyir.ir.plan.table import TABLE
from tinyir.kernels import FAMILIES
from tinyir.kit.diag import catalogue
from tinyir.kit.options import EXIT_CODES, helps
from tinyir.reference import find, page_named, text_of
from tinyir.reference.commands import EVERY, actions
from tinyir.reference.coverage import aten_ops, dsl_functions, onnx_ops
from tinyir.reference.gpu_statements import statements
from tinyir.reference.json_file import KEYS
from tinyir.reference.page import words

from ..japanese import english_in
from .sources import ROOT

GRAMMARS = {f.stem for f in (ROOT / "grammars").glob("*.lark")}
NAMED = {
    "commands": [
        *EVERY,
        *(f"{n} {o}" for n, parser in parsers().items() for o, _ in actions(parser) if o not in EVERY),
    ],
    "json": [*FRONT_OPS, *ELEMENTWISE, *(f"{part}.{key}" for part, keys in KEYS.items() for key in keys)],
    "tiny": [*OPS],
    "languages": [f"grammar.{name}" for name in GRAMMARS],
    "plan": [*(f.word for f in TABLE), *(f.algo for f in FAMILIES)],
    "gpu": [*statements()],
    "coverage": [
        *(f"onnx.{op}" for ops in onnx_ops().values() for op in ops),
        *(f"aten.{op}" for ops in aten_ops().values() for op in ops),
        *(f"core.{op}" for op in coreops.CORE),
        *(f"dsl.{name}" for _, names in dsl_functions("en") for name in names),
    ],
}
WORDS = {
    "json": FRONT_OPS,
    "fn": ELEMENTWISE,
    "tiny": OPS,
    "plan": {f.word for f in TABLE},
    "family": {f.algo for f in FAMILIES},
    "gpu": statements(),
}
DOCUMENTS = sorted(
    [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "samples").rglob("*.md"), *ROOT.glob("*.md")]
)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.M | re.S)


@pytest.mark.parametrize("page", NAMED)
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_everything_has_an_entry(page: str, lang: str) -> None:
    here = [page_named(PAGES, page)]
    missing = [name for name in NAMED[page] if not any(section.text for _, section in find(here, name, lang))]
    assert missing == [], "write its words in tinyir/reference/words"


@pytest.mark.parametrize("name", WORDS)
def test_words_are_of_what_there_is(name: str) -> None:
    assert set(words(name)) == set(WORDS[name])


def test_every_line_of_help_is_in_japanese() -> None:
    lines = {
        line
        for parser in parsers().values()
        for line in (
            *(str(a.help) for a in parser._actions),
            *(what for _, what in parser.examples),
            str(parser.description),
        )
    }
    lines |= {what for _, what in EXIT_CODES} | {"examples", "exit codes", "positional arguments", "options"}
    assert sorted(lines - set(helps())) == [] and sorted(set(helps()) - lines) == []
    assert english_in(" ".join(helps().values())) == []


# argparse's own that a command line of ours can meet, what our parser puts around one, and its word for all of them
OF_ARGPARSE = """unrecognized arguments: {}|the following arguments are required: {}|not allowed with argument {}
ignored explicit argument {}|expected one argument|expected at most one argument|expected at least one argument
invalid int value: {}|invalid float value: {}|invalid choice: {} (choose from {})|argument {}: {}|{}; did you mean {}?
error""".replace("\n", "|").split("|")


def faults_of_options() -> Iterator[str]:
    """What the commands themselves say of a command line, with {} for each word."""
    for file in sorted((ROOT / "tinyir").glob("*/*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if name in ("error", "ArgumentTypeError") and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
                parts = getattr(node.args[0], "values", [node.args[0]])
                said = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in parts)
                yield re.sub(r"^argument --[\w-]+: ", "", said).partition("; did you mean")[0]


def test_every_fault_of_a_command_line_is_in_japanese() -> None:
    known = {re.sub(r"\{\w+\}", "{}", line) for line in helps("usage")}
    assert sorted(known ^ {*OF_ARGPARSE, *faults_of_options()}) == []
    assert english_in(" ".join(re.sub(r"\{\w+\}", "", line) for line in helps("usage").values())) == []


def test_every_code_is_listed() -> None:
    for lang in ("en", "ja"):
        text = text_of(page_named(PAGES, "diagnostics"), lang)
        assert re.findall(r"^\| \[(\w+)\]", text, re.M) == sorted(catalogue(), key=lambda c: ("EWR".index(c[0]), c))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_a_japanese_page_is_japanese(page: object) -> None:
    text = FENCED.sub("", text_of(page, "ja"))
    assert english_in(re.sub(r"`[^`\n]*`|\*[^*\n]*\*|\([^)\n]*\.md[^)\n]*\)", " ", text)) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda f: str(f.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    faults = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or ROOT not in (target, *target.parents):
            faults.append(link)
        elif anchor and anchor not in anchors_of(target):
            faults.append(link)
    assert faults == []


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
