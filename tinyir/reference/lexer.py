"""The texts for Pygments, which colours the documents: `pip install` makes it known by the name of each stage."""

from __future__ import annotations

import re

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text

from ..ir.pipeline import STAGES
from .highlight import LANGUAGES, endings, ops_of, words_of

_OPS = sorted({op for language in LANGUAGES for op in ops_of(language)}, key=lambda w: (-len(w), w))
_WORDS = sorted({word for language in LANGUAGES for word in words_of(language)}, key=lambda w: (-len(w), w))


class TinyLexer(RegexLexer):
    """Text of any stage, but CUDA."""

    name = "tinyir"
    aliases = ["tinyir", *(stage for stage in STAGES if stage != "cu"), "coreir", "graphdsl"]
    filenames = [f"*.{ending}" for language in LANGUAGES if language != "cu" for ending in endings(language)]
    flags = re.MULTILINE
    tokens = {
        "root": [
            (r"^tinyir [0-9]+\.[0-9]+ [a-z]+", Keyword.Namespace),
            (r"(?:#|//)[^\n]*", Comment.Single),
            (r'%?"(?:[^"\\\n]|\\.)*"', String),
            (r"%[\w.]+", Name.Variable),
            (r"(?:fp|bf|[iu])[0-9]+(?:e[0-9]m[0-9])?(?=\[)|bool(?=\[)", Keyword.Type),
            (rf"(?:{'|'.join(map(re.escape, _OPS))})(?![\w.])", Name.Builtin),
            (rf"(?:{'|'.join(map(re.escape, _WORDS))})(?![\w.])", Keyword),
            (r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", Number),
            (r"[A-Za-z_][\w.]*", Name),
            (r"->|<-|<=|\.\.|[=<+*/:|-]", Operator),
            (r"\s+|.", Text),
        ]
    }
