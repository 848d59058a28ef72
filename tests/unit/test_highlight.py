"""What editors colour: TextMate grammars and the Pygments lexer know the words of every text."""

from __future__ import annotations

import json
import re

import pytest
from pygments.token import Error, Keyword, Name, Token

from tinyir.ir.pipeline import STAGES
from tinyir.reference.highlight import LANGUAGES, forms, ops_of, textmate, words_of
from tinyir.reference.lexer import TinyLexer

from ..commands import ROOT

SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu"
VSCODE = ROOT / "docs" / "editors" / "vscode"
SAID = {
    "tiny": ("model", "outputs", "from", "must_fuse"),
    "index": ("book", "reads"),
    "poly": ("block", "domain", "edge"),
    "region": ("program", "buffer", "yield", "analysis"),
    "plan": ("stages", "split_k", "prefetch"),
    "gpu": ("kernel", "tma_load", "wait_group", "launch_next"),
    "cu": ("manifest", "tensors", "symbols"),
    "coreir": ("outputs",),
    "graphdsl": ("graph", "return"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_are_those_of_the_grammar(language: str) -> None:
    assert set(SAID[language]) <= set(words_of(language))
    assert all(re.compile(expression) for _, expression in forms(language))


@pytest.mark.parametrize("stage", [s for s in STAGES if s != "cu"])
def test_a_text_is_coloured(stage: str) -> None:
    text = SAMPLE.with_suffix(f".{stage}").read_text(encoding="utf-8")
    found = list(TinyLexer().get_tokens(text))
    assert "".join(value for _, value in found) == text
    assert Error not in {kind for kind, _ in found}
    kinds: dict[str, set] = {}
    for kind, value in found:
        kinds.setdefault(value, set()).add(kind)
    assert all(Keyword in kinds[word] for word in SAID[stage] if word in kinds)
    assert any(kind is Name.Builtin for kind, _ in found) and any(kind in Token.Name.Variable for kind, _ in found)


def test_the_extension_has_every_language() -> None:
    extension = json.loads((VSCODE / "package.json").read_text(encoding="utf-8"))
    assert [one["id"] for one in extension["contributes"]["languages"]] == [f"tinyir-{one}" for one in LANGUAGES]
    for one in extension["contributes"]["grammars"]:
        grammar = json.loads((VSCODE / one["path"]).read_text(encoding="utf-8"))
        assert grammar["scopeName"] == one["scopeName"]
        assert grammar == textmate(one["language"].removeprefix("tinyir-"))
    assert (VSCODE / extension["main"]).exists() and (VSCODE / "language-configuration.json").exists()


def test_ops_are_spelt_as_the_language_does() -> None:
    assert "RESHAPE" in ops_of("tiny") and "relu" in ops_of("region") and "RESHAPE" not in ops_of("region")
