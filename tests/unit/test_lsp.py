"""The language server: a scripted session over the texts of one program, as an editor holds it."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinyir.ir.pipeline import STAGES
from tinyir.lsp.names import definition_of, facts_of, places_of
from tinyir.lsp.texts import Text, faults_of, formatted

from ..commands import ROOT

SAMPLE = ROOT / "samples" / "gemm_bias_relu"
# of each language: a name in it, and a word that is misspelt for the code action
NAMES = {
    "json": ("gemm", '"op":"GEMM"', '"op":"GEM"'),
    "tiny": ("gemm", "MUL(", "MULL("),
    "index": ("gemm", "reads ", "raeds "),
    "poly": ("gemm", "domain ", "domian "),
    "region": ("bias_add", "yield ", "yeild "),
    "plan": ("gemm", "stages ", "stagse "),
    "gpu": ("gemm", "advance ", "advnce "),
    "cu": ("gemm", "// program", "// porgram"),
}


class Editor:
    """The client's side of a session."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tinyir", "tiny-lsp"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.count = itertools.count(1)
        self.said: dict[str, list[dict[str, Any]]] = {}  # diagnostics by uri, the last ones

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        size = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        found = json.loads(self.process.stdout.read(size))
        if found.get("method") == "textDocument/publishDiagnostics":
            self.said[found["params"]["uri"]] = found["params"]["diagnostics"]
        return found

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self.count)
        self.send({"id": number, "method": method, "params": params})
        while (found := self.read()).get("id") != number or "method" in found:
            pass
        assert "error" not in found, found
        return found["result"]

    def tell(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def show(self, uri: str, text: str, is_new: bool) -> list[dict[str, Any]]:
        """Open a text, or change it; what is said of it."""
        self.said.pop(uri, None)
        if is_new:
            document = {"uri": uri, "languageId": "tinyir", "version": 1, "text": text}
            self.tell("textDocument/didOpen", textDocument=document)
        else:
            change = [{"text": text}]
            self.tell("textDocument/didChange", textDocument={"uri": uri, "version": 2}, contentChanges=change)
        while uri not in self.said:
            self.read()
        return self.said[uri]


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    """A session that has begun."""
    made = Editor()
    found = made.ask("initialize", processId=None, rootUri=None, capabilities={})
    offered = found["capabilities"]
    for word in ("hover", "definition", "references", "rename", "documentFormatting", "codeAction"):
        assert offered[f"{word}Provider"], word
    made.tell("initialized")
    yield made
    made.ask("shutdown")
    made.tell("exit")
    assert made.process.wait(20) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journey of a program, where an editor may change it."""
    return Path(shutil.copytree(SAMPLE, tmp_path_factory.mktemp("lsp") / "gemm"))


def position(text: str, word: str) -> dict[str, int]:
    """Where a word is, as an editor says it."""
    found = re.search(rf"{re.escape(word)}(?![\w.])", text)
    assert found is not None
    at = found.start()
    return {"line": text.count("\n", 0, at), "character": at - text.rfind("\n", 0, at) - 1}


def applied(text: str, edits: list[dict[str, Any]]) -> str:
    """A text with edits made, from the last to the first."""
    lines = text.split("\n")

    def offset(place: dict[str, int]) -> int:
        return sum(len(line) + 1 for line in lines[: place["line"]]) + place["character"]

    for edit in sorted(edits, key=lambda e: -offset(e["range"]["start"])):
        text = text[: offset(edit["range"]["start"])] + edit["newText"] + text[offset(edit["range"]["end"]) :]
    return text


@pytest.mark.parametrize("stage", NAMES)
def test_a_session(stage: str, editor: Editor, folder: Path) -> None:
    name, right, wrong = NAMES[stage]
    file = folder / f"gemm_bias_relu.{stage}"
    text, uri = file.read_text(encoding="utf-8"), file.as_uri()
    document = {"uri": uri}
    assert editor.show(uri, text, True) == []

    written = f'"name":"{name}"' if stage == "json" else f"%{name}" if f"%{name}" in text else name
    here = position(text, written)
    here["character"] += written.index(name) + 1
    hover = editor.ask("textDocument/hover", textDocument=document, position=here)
    assert name in hover["contents"]["value"] and "fp" in hover["contents"]["value"]

    found = editor.ask("textDocument/definition", textDocument=document, position=here)
    assert found[0]["uri"] == uri
    places = editor.ask(
        "textDocument/references", textDocument=document, position=here, context={"includeDeclaration": True}
    )
    assert {p["uri"].rpartition(".")[2] for p in places} >= {"tiny", "region"} and any(p["uri"] == uri for p in places)

    edit = editor.ask("textDocument/rename", textDocument=document, position=here, newName="renamed")
    changed = applied(text, edit["changes"][uri])
    assert not list(places_of(Text("", changed), name)) or stage == "cu"
    assert len(list(places_of(Text("", changed), "renamed"))) == len(edit["changes"][uri])

    faults = editor.show(uri, text.replace(right, wrong, 1), False)
    assert faults and faults[0]["severity"] == 1
    fixes = editor.ask(
        "textDocument/codeAction", textDocument=document, range=faults[0]["range"], context={"diagnostics": faults}
    )
    assert applied(text.replace(right, wrong, 1), fixes[0]["edit"]["changes"][uri]) == text
    editor.show(uri, text, False)
    editor.tell("textDocument/didClose", textDocument=document)


MODELS = {  # a text of each language of models; a name in it, its line, another name, a right word and a wrong one
    "coreir": (
        '%0 = Input() {name="x"} : f32[N, 4]\n%1 = Input() {name="w"} : f32[4, 3]\n'
        "%2 = MatMul(%0, %1) : f32[N, 3]\n%3 = Relu(%2) : f32[N, 3]\noutputs: y=%3\n",
        ("%2", 2, "%7", "Relu", "Rellu"),
    ),
    "dsl": (
        "graph<N=8> main(x: f32[N, 4], w: f32[4, 3]) -> (y: f32[N, 3]) {\n"
        "  h = matmul(x, w)\n  y = relu(h)\n  return y\n}\n",
        ("h", 1, "hidden", "relu", "rellu"),
    ),
}


@pytest.mark.parametrize("language", MODELS)
def test_a_session_of_a_language_of_models(language: str, editor: Editor, tmp_path: Path) -> None:
    text, (name, line, new, right, wrong) = MODELS[language]
    uri = (tmp_path / f"m.{language}").as_uri()
    document = {"uri": uri}
    assert editor.show(uri, text, True) == []
    here = position(text, f"({name}" if f"({name}" in text else name)
    here["character"] += 1 + name.startswith("%")
    hover = editor.ask("textDocument/hover", textDocument=document, position=here)
    assert text.split("\n")[line].strip() in hover["contents"]["value"]
    found = editor.ask("textDocument/definition", textDocument=document, position=here)
    assert [(p["uri"], p["range"]["start"]["line"]) for p in found] == [(uri, line)]
    edit = editor.ask("textDocument/rename", textDocument=document, position=here, newName=new)
    changed = applied(text, edit["changes"][uri])
    assert name not in re.findall(r"%?\w+", changed) and changed.count(new) == len(edit["changes"][uri]) == 2
    assert editor.show(uri, changed, False) == []
    misspelt = text.replace(right, wrong, 1)
    faults = editor.show(uri, misspelt, False)
    fixes = editor.ask(
        "textDocument/codeAction", textDocument=document, range=faults[0]["range"], context={"diagnostics": faults}
    )
    assert applied(misspelt, fixes[0]["edit"]["changes"][uri]) == text
    editor.tell("textDocument/didClose", textDocument=document)


def test_a_value_of_core_ir_is_called_by_a_number(editor: Editor, tmp_path: Path) -> None:
    text, _ = MODELS["coreir"]
    uri = (tmp_path / "n.coreir").as_uri()
    editor.show(uri, text, True)
    here = position(text, "%2") | {"character": 1}
    for new, is_taken in (("hidden", True), ("%3", True), ("%9", False)):
        edit = editor.ask("textDocument/rename", textDocument={"uri": uri}, position=here, newName=new)
        assert (edit is None) == is_taken, new
    loose = text.replace(" : f32[N, 3]", "   :   f32[N,3]", 1)
    editor.show(uri, loose, False)
    options = {"tabSize": 2, "insertSpaces": True}
    edits = editor.ask("textDocument/formatting", textDocument={"uri": uri}, options=options)
    assert applied(loose, edits) == text


@pytest.mark.parametrize("stage", STAGES)
def test_formatting_gives_the_canonical_text(stage: str, editor: Editor, folder: Path) -> None:
    file = folder / f"gemm_bias_relu.{stage}"
    text, uri = file.read_text(encoding="utf-8"), f"{file.as_uri()}.new"
    loose = text.replace(" : fp", "   :  fp", 1)
    assert loose != text
    editor.show(uri, loose, True)
    edits = editor.ask(
        "textDocument/formatting", textDocument={"uri": uri}, options={"tabSize": 2, "insertSpaces": True}
    )
    assert applied(loose, edits) == text


def test_words_of_the_languages_have_their_reference(editor: Editor, folder: Path) -> None:
    file = folder / "gemm_bias_relu.plan"
    text = file.read_text(encoding="utf-8")
    editor.show(file.as_uri(), text, True)
    document = {"uri": file.as_uri()}
    hover = editor.ask(
        "textDocument/hover", textDocument=document, position=position(text, "  stages").copy() | {"character": 4}
    )
    assert "### stages" in hover["contents"]["value"]


def test_a_name_that_is_taken_is_not_given_again(editor: Editor, folder: Path) -> None:
    file = folder / "gemm_bias_relu.tiny"
    text = file.read_text(encoding="utf-8")
    editor.show(file.as_uri(), text, True)
    at = position(text, "%gemm.mul")
    assert editor.ask("textDocument/rename", textDocument={"uri": file.as_uri()}, position=at, newName="relu") is None


def test_places_are_those_of_whole_names() -> None:
    text = Text("", "tinyir 1.0 tiny\n\n  %a = ADD(%a.b, x)  : fp32[N]\n  %a.b = NEG(x) : fp32[N]\n")
    assert [(p.line, p.start) for p in places_of(text, "a.b")] == [(2, 12), (3, 3)]
    place = definition_of(text, "a.b")
    assert place is not None and place.line == 3


@pytest.mark.parametrize("stage", NAMES)
def test_no_text_is_too_odd(stage: str) -> None:
    """A text in the middle of being typed gets diagnostics, never an exception."""
    text = (SAMPLE / f"gemm_bias_relu.{stage}").read_text(encoding="utf-8")
    draw = random.Random(stage)
    for _ in range(12):
        at = draw.randrange(len(text))
        odd = draw.choice((text[:at], text[:at] + text[at + draw.randrange(30) :], text[:at] + '"{%[' + text[at:]))
        one = Text("", odd)
        assert all(d.span is None or d.span.start <= len(odd) + 1 for d in faults_of(one, False))
        formatted(one)
        facts_of([one], "gemm")
        assert all(odd.split("\n")[p.line][p.start : p.end] == "gemm" for p in places_of(one, "gemm"))


def test_names_with_other_characters_are_found_in_their_quotes() -> None:
    lines = [
        '  %"/net/a:0" = NEG(x)  : fp32[N]',
        '  %b = ABS(%"/net/a:0") : fp32[N]',
        '  %"/net/a:0.c" = NEG(x) : fp32[N]',
    ]
    text = Text("", "\n".join(["tinyir 1.0 tiny", *lines]))
    assert [(p.line, p.start, p.end) for p in places_of(text, "/net/a:0")] == [(1, 4, 12), (2, 13, 21)]
    place = definition_of(text, "/net/a:0")
    assert place is not None and (place.line, place.start) == (1, 4)
    model = Text("m.json", '{"graph": [{"op": "Relu", "name": "/net/a:0", "inputs": ["X"]}]}')
    place = definition_of(model, "/net/a:0")
    assert place is not None and model.content[place.start : place.end] == "/net/a:0"
