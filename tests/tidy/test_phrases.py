"""The words among the facts of diagnostics are phrases, and every phrase has its Japanese."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyir.kit.diag import catalogue
from tinyir.kit.phrase import phrases

from ..japanese import RULES, nouns_in
from .sources import ROOT

PACKAGE = ROOT / "tinyir"
MODULES = sorted(PACKAGE.rglob("*.py"))
# What an English sentence has: two words of which one holds sentences together, or a value beside a word.
GLUE = (
    "a an the is are not no its it that which does do has have than other another with nothing none only more each "
    "every but for of in to by from at on and or as inside outside"
).split()
SENTENCE = re.compile(
    rf"(?<![\w.])(?:{'|'.join(GLUE)})(?![\w(.]).*[A-Za-z@]|[A-Za-z@']{{2,}} +(?:{'|'.join(GLUE)})(?![\w(.])"
)
# Modules that write texts: of a language, CUDA, a table, a report, or the forms of messages.
WRITERS = (
    "target/",
    "lower/cu/",
    "host/",
    "sim/layout.py",
    "runtime/profile.py",
    "runtime/timeline.py",
    "analysis/report.py",
    "analysis/proofs.py",
    "analysis/banks.py",
    "analysis/coverage.py",
    "runtime/memory.py",
    "ir/plan/table.py",
    "ir/gpu/printer.py",
    "ir/gpu/points.py",
    "ir/gpu/extremes.py",
    "ir/body.py",
    "ir/region.py",
    "ir/sets.py",
    "ir/index.py",
    "front/to_dsl.py",
    "lower/plan/table.py",
    "tune/table.py",
    "kit/render.py",
    "kit/options.py",
    "certificate/",
    "verifier/",
    "reference/",
    "view/",
    "lsp/names.py",
    "kit/diag.py",
    "kit/records.py",
    "__init__.py",
)
# Sentences elsewhere that no diagnostic tells: results on stdout, pieces of texts, words of the languages.
OTHERS = {
    "api.py": ("@ @ is none of @", "<@(@) -> @ on @>"),
    "cmd/certify.py": ("  listed at @: @",),
    "cmd/diff.py": ("largest difference @ in @", "no difference", "the kernels of @ were not run, only its regions"),
    "cmd/tiny_run.py": ("  @ of the limit of @",),
    "front/jsontext.py": ("value or ]", "key or }"),
    "ir/again.py": ("region @ as @",),
    "ir/moved.py": ("@ at [@]",),
    "ir/manifest.py": (" as @", " of @", " for @"),
    "ir/model.py": ("from @ : @@", "  sym @ in @..@", " at @:@"),
    "ir/windows.py": ("windows @ from @ step @",),
    "kernels/multistage/legal.py": ("... and @",),
    "runtime/check.py": ("@ of @ elements differ", "; @ by what roundings on the way do"),
    "analysis/relations.py": ("not (@)",),
    "analysis/validate.py": ("not (@)",),
    "runtime/external.py": ("__cuda_array_interface__ has no name for @: use __dlpack__", "GpuArray(@@ at @)"),
    "runtime/compile.py": ("--no-cache",),
    "sim/host.py": ("-fsanitize-undefined-trap-on-error",),
    "dynamo/op.py": ("(@) -> @", "@ is not NAMESPACE::NAME"),
    "dynamo/report.py": ("tinyir cuts this graph into @ programs; torch runs @",),
    "kit/cli.py": ("@: @ cannot be written: @\n",),
    "__main__.py": ("python -m tinyir: there is no command @@", "; there are @"),
}
RAISED = ("AssertionError", "TypeError", "KeyError", "LookupError", "NotImplementedError", "IndexError")
TOLD = ("Phrase", "parser_of", "stage_parser", "ArgumentTypeError", "tell", "add_argument", "error")


def phrase_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Every `Phrase(...)` of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Phrase":
            yield node


def braces(sentence: str) -> set[str]:
    """The values that a sentence names."""
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


def sentences() -> dict[str, set[str]]:
    """Every sentence of the package with the names of the values that each of its calls gives."""
    found: dict[str, set[str]] = {}
    for file in MODULES:
        for call in phrase_calls(ast.parse(file.read_text(encoding="utf-8"))):
            place = f"{file.relative_to(ROOT)}:{call.lineno}"
            sentence = call.args[0]
            if isinstance(sentence, ast.Name) and file.name == "phrase.py":  # which makes a phrase again from its parts
                continue
            assert isinstance(sentence, ast.Constant) and len(call.args) == 1, f"{place}: the sentence is written out"
            given = {str(k.arg) for k in call.keywords}
            assert given == braces(sentence.value), f"{place}: the values are those of the sentence"
            found.setdefault(sentence.value, set()).add(place)
    return found


def test_every_phrase_has_its_japanese_and_no_other_is_listed() -> None:
    used = sentences()
    assert sorted(set(used) - set(phrases())) == []
    assert sorted(set(phrases()) - set(used)) == []


@pytest.mark.parametrize("sentence", sorted(phrases()))
def test_a_translation_has_the_values_of_its_sentence(sentence: str) -> None:
    assert braces(phrases()[sentence]) == braces(sentence)
    assert nouns_in(phrases()[sentence]) == []


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_a_message_has_the_same_facts_in_both_languages(code: str) -> None:
    entry = catalogue()[code]
    for told in (entry["why"], entry.get("suggestion", {"en": "", "ja": ""})):
        assert braces(told["ja"]) <= braces(told["en"]) | {"at"}


def _flat(node: ast.AST) -> str | None:
    """A literal's text, `@` for each value of an f-string; None for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "@" for v in node.values)
    return None


def _left_out(tree: ast.AST) -> set[int]:
    """The nodes whose literals are no facts: docstrings, what a programmer or the user of an option reads, values that
    are compared, keys, annotations, and the sentences of phrases."""
    out: set[int] = set()

    def leave(*nodes: ast.AST | None) -> None:
        out.update(id(inner) for node in nodes if node is not None for inner in ast.walk(node))

    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            leave(node)
        elif isinstance(node, ast.Assert):
            leave(node.msg)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            leave(node.exc if ast.unparse(node.exc.func) in RAISED else None)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).split(".")[-1]
            leave(*(node.args if name == "Phrase" else (node,)) if name in TOLD else ())
            leave(*(node.args if ast.unparse(node.func).startswith("re.") else ()))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("SUMMARY", "summary"):  # of `--help`
            leave(node)
        elif isinstance(node, ast.Compare):
            leave(node.left, *node.comparators)
        elif isinstance(node, ast.Dict):
            leave(*node.keys)
        elif isinstance(node, (ast.AnnAssign, ast.arg)):
            leave(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            leave(node.returns)
        elif isinstance(node, ast.JoinedStr):
            out.update(id(v) for v in node.values if isinstance(v, ast.Constant))
    return out


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_an_english_sentence_is_a_phrase(file: Path) -> None:
    name = str(file.relative_to(PACKAGE))
    if name.startswith(WRITERS):
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    out, allowed = _left_out(tree), OTHERS.get(name, ())
    found = []
    for node in ast.walk(tree):
        text = _flat(node)
        if text and id(node) not in out and SENTENCE.search(text) and text not in (*allowed, *RULES):
            found.append(f"{name}:{node.lineno}: {text}")  # type: ignore[attr-defined]
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            last = node.values[-1]
            if isinstance(last, ast.Constant) and last.value in ("none", "nothing"):
                found.append(f"{name}:{node.lineno}: {last.value}")
    assert found == []
