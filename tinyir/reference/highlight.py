"""What editors colour: the words of each language, taken from its grammar and tables, as TextMate grammars."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from ..ir.ops import OPS, REDUCERS, REGION_OPS
from ..ir.pipeline import STAGES
from ..ir.types import DTYPES
from ..kit.text import source_of

LANGUAGES = (*STAGES, "coreir", "graphdsl")
_GRAMMARS = {"cu": "manifest"}
_ENDINGS = {"coreir": ["coreir"], "graphdsl": ["dsl"]}


def endings(language: str) -> list[str]:
    """The endings of files of a language."""
    return _ENDINGS.get(language, [language])


@functools.cache
def words_of(language: str) -> tuple[str, ...]:
    """The words of a language's grammar, those that it shares with others too."""
    source = re.sub(r"//[^\n]*", "", source_of(_GRAMMARS.get(language, language)))
    spelt = re.findall(r'"([A-Za-z_][\w/]*)"', source)
    spelt += [
        w for rule in re.findall(r"^\w+(?:\.\d)?: /([^/\n]+)/", source, re.M) for w in re.findall(r"[a-z_]{3,}", rule)
    ]
    return tuple(sorted(set(spelt)))


def ops_of(language: str) -> tuple[str, ...]:
    """The ops that a language writes."""
    found = (
        {*REGION_OPS, *(name.lower() for name in REDUCERS)}
        if language in ("region", "plan", "gpu", "cu")
        else {*OPS, *REDUCERS}
    )
    return tuple(sorted(found))


def _choice(words: tuple[str, ...]) -> str:
    return rf"(?<![\w.%])(?:{'|'.join(sorted(map(re.escape, words), key=lambda w: (-len(w), w)))})(?![\w.])"


def forms(language: str) -> tuple[tuple[str, str], ...]:
    """What a language is made of, each as the scope of TextMate and a regular expression, the first that fits first."""
    comment = r"//[^\n]*" if language == "graphdsl" else r"#[^\n]*"
    head = (("keyword.control.header", r"^(?:// )?tinyir [0-9]+\.[0-9]+ [a-z]+"),)
    marks = () if language == "cu" else (("comment.line", comment),)
    return (
        *head,
        *marks,
        ("string.quoted.double", r'"(?:[^"\\\n]|\\.)*"'),
        ("variable.other.value", r'%(?:[A-Za-z_]\w*(?:\.\w+)*|[0-9]+|"(?:[^"\\\n]|\\.)*")'),
        ("storage.type.dtype", rf"(?<![\w.])(?:{'|'.join(DTYPES)})(?![\w.])"),
        ("support.function.op", _choice(ops_of(language))),
        ("keyword.other", _choice(words_of(language))),
        ("constant.numeric", r"(?<![\w.])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])"),
        ("keyword.operator", r"->|<-|<=|\.\.|[=<+*/:-]"),
    )


def textmate(language: str) -> dict[str, Any]:
    """The TextMate grammar of a language. CUDA text is CUDA C below the comment that carries the manifest."""
    patterns: list[dict[str, Any]] = [
        {"name": f"{scope}.tinyir.{language}", "match": expression} for scope, expression in forms(language)
    ]
    if language == "cu":
        patterns = [
            {"begin": r"^//", "end": r"$", "name": "meta.manifest.tinyir", "patterns": patterns},
            {"include": "source.cuda-cpp"},
        ]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": f"tinyir {language}",
        "scopeName": f"source.tinyir.{language}",
        "fileTypes": endings(language),
        "patterns": patterns,
    }


def written() -> dict[str, str]:
    """The grammars as files of the VS Code extension, and the extension's list of them."""
    folder = "docs/editors/vscode"
    found = {
        f"{folder}/syntaxes/{language}.tmLanguage.json": json.dumps(textmate(language), indent=1) + "\n"
        for language in LANGUAGES
    }
    extension = {
        "name": "tinyir",
        "displayName": "tinyir",
        "description": "Texts of tinyir: colours, diagnostics, hover, definitions across stages, quick fixes",
        "version": "1.0.0",
        "publisher": "tinyir",
        "license": "MIT",
        "engines": {"vscode": "^1.85.0"},
        "categories": ["Programming Languages"],
        "main": "./extension.js",
        "activationEvents": [f"onLanguage:tinyir-{language}" for language in LANGUAGES],
        "dependencies": {"vscode-languageclient": "^9.0.1"},
        "contributes": {
            "languages": [
                {
                    "id": f"tinyir-{language}",
                    "aliases": [f"tinyir {language}"],
                    "extensions": [] if language == "cu" else [f".{e}" for e in endings(language)],
                    "firstLine": rf"^(// )?tinyir [0-9]+\.[0-9]+ {language}\b",
                    "configuration": "./language-configuration.json",
                }
                for language in LANGUAGES
            ],
            "grammars": [
                {
                    "language": f"tinyir-{language}",
                    "scopeName": f"source.tinyir.{language}",
                    "path": f"./syntaxes/{language}.tmLanguage.json",
                }
                for language in LANGUAGES
            ],
            "configuration": {
                "title": "tinyir",
                "properties": {
                    "tinyir.command": {
                        "type": "string",
                        "default": "tiny-lsp",
                        "description": "the language server: a command on the path, or the path of bin/tiny-lsp",
                    }
                },
            },
        },
    }
    found[f"{folder}/package.json"] = json.dumps(extension, indent=2) + "\n"
    return found
