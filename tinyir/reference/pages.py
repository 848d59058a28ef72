"""The pages of the reference, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .page import Page, Section


def _of(module: str) -> Callable[[str], Iterable[Section]]:
    """The sections of a module, which is imported when they are asked for: each reads tables of a room of its own."""

    def sections(lang: str) -> Iterable[Section]:
        import importlib

        return importlib.import_module(f".{module}", __package__).sections(lang)

    return sections


PAGES: tuple[Page, ...] = (
    Page("json", {"en": "Front-end JSON", "ja": "フロントエンド JSON"}, _of("json_ops")),
    Page("tiny", {"en": "Ops of tiny text", "ja": "tiny テキストの op"}, _of("tiny_ops")),
    Page("languages", {"en": "The languages", "ja": "言語"}, _of("grammars")),
    Page("plan", {"en": "Fields of plans", "ja": "プランのフィールド"}, _of("plan_fields")),
    Page("gpu", {"en": "Statements of gpu text", "ja": "gpu テキストの文"}, _of("gpu_statements")),
    Page("coverage", {"en": "What is read of other languages", "ja": "ほかの言語の対応範囲"}, _of("coverage")),
    Page("diagnostics", {"en": "Diagnostics", "ja": "診断"}, _of("diagnostics")),
)
