"""The server itself, on pygls: diagnostics, hover, definition, references, rename, formatting, quick fixes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from .. import __version__
from ..kit.diag import Diag
from ..kit.render import SEVERITIES
from .names import Place, definition_of, facts_of, places_of, plain
from .texts import Text, faults_of, formatted, journey_of, word_at

_SEVERITY = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "remark": lsp.DiagnosticSeverity.Information,
}


class Server(LanguageServer):
    """A server that speaks `lang`."""

    def __init__(self, lang: str):
        super().__init__("tiny-lsp", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.lang = lang
        self.faults: dict[str, list[Diag]] = {}

    def text_of(self, uri: str) -> Text:
        """A text as it is in the editor."""
        return Text(to_fs_path(uri) or "", self.workspace.get_text_document(uri).source)

    def all_texts(self, uri: str) -> list[Text]:
        """The text, and those of its journey, as they are in the editor where it has them open."""
        open_ = {to_fs_path(u): d.source for u, d in self.workspace.text_documents.items()}
        first = self.text_of(uri)
        return [first, *(Text(t.path, open_.get(t.path, t.content)) for t in journey_of(first))]

    def tell(self, uri: str, is_whole: bool) -> None:
        """Publish the faults of a text; `is_whole`: all that `tiny-check` finds, which takes longer."""
        text = self.text_of(uri)
        self.faults[uri] = faults_of(text, is_whole)
        shown = [_diagnostic(d, text, self.lang) for d in self.faults[uri] if not d.code.startswith("R")]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=shown))


def server(lang: str) -> Server:
    """A server that speaks `lang`, with all that it answers."""
    made = Server(lang)
    for feature, answer in _ANSWERS.items():
        made.feature(feature, _OPTIONS.get(feature))(functools.partial(answer, made))
    return made


def _opened(here: Server, params: lsp.DidOpenTextDocumentParams | lsp.DidSaveTextDocumentParams) -> None:
    here.tell(params.text_document.uri, True)


def _changed(here: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    here.tell(params.text_document.uri, False)


def _closed(here: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    here.faults.pop(params.text_document.uri, None)


def _hover(here: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    uri = params.text_document.uri
    word, found = _word(here.text_of(uri), params.position)
    if not found:
        return None
    said = [f"```\n{fact}\n```" for fact in facts_of(here.all_texts(uri), plain(word))]
    said += _entries(word, here.lang)
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n".join(said)), found) if said else None


def _definition(here: Server, params: lsp.DefinitionParams) -> list[lsp.Location]:
    uri = params.text_document.uri
    word, found = _word(here.text_of(uri), params.position)
    places = [definition_of(text, plain(word)) for text in here.all_texts(uri)] if found else []
    return _locations(uri, [p for p in places if p is not None])


def _references(here: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    uri = params.text_document.uri
    word, found = _word(here.text_of(uri), params.position)
    return _locations(uri, [p for text in here.all_texts(uri) for p in places_of(text, plain(word))] if found else [])


def _rename(here: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
    uri = params.text_document.uri
    text = here.text_of(uri)
    word, found = _word(text, params.position)
    new = plain(params.new_name)
    is_number = text.language == "coreir" and word.startswith("%")
    if not found or is_number != new.isdigit() or any(True for _ in places_of(text, new)):
        return None  # a name that is taken would make two things one; values of Core IR are numbers
    edits = [lsp.TextEdit(_range(p.text, p.line, p.start, p.end), new) for p in places_of(text, plain(word))]
    return lsp.WorkspaceEdit({uri: edits})


def _formatting(here: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    text = here.text_of(params.text_document.uri)
    canonical = formatted(text)
    if canonical is None or canonical == text.content:
        return []
    return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), lsp.Position(len(text.lines), 0)), canonical)]


def _actions(here: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri = params.text_document.uri
    text, asked = here.text_of(uri), params.range
    found = []
    for d in here.faults.get(uri, []):
        shown = _diagnostic(d, text, here.lang)
        if d.edit is None or shown.range.end < asked.start or asked.end < shown.range.start:
            continue
        place = lsp.Range(_position(text, d.edit.span.start), _position(text, d.edit.span.end))
        edit = lsp.WorkspaceEdit({uri: [lsp.TextEdit(place, d.edit.text)]})
        title = d.edit.text.strip() or d.suggestion(here.lang)
        found.append(
            lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, diagnostics=[shown], is_preferred=True, edit=edit)
        )
    return found


_ANSWERS: dict[str, Callable[[Server, Any], Any]] = {
    lsp.TEXT_DOCUMENT_DID_OPEN: _opened,
    lsp.TEXT_DOCUMENT_DID_SAVE: _opened,
    lsp.TEXT_DOCUMENT_DID_CHANGE: _changed,
    lsp.TEXT_DOCUMENT_DID_CLOSE: _closed,
    lsp.TEXT_DOCUMENT_HOVER: _hover,
    lsp.TEXT_DOCUMENT_DEFINITION: _definition,
    lsp.TEXT_DOCUMENT_REFERENCES: _references,
    lsp.TEXT_DOCUMENT_RENAME: _rename,
    lsp.TEXT_DOCUMENT_FORMATTING: _formatting,
    lsp.TEXT_DOCUMENT_CODE_ACTION: _actions,
}
_OPTIONS = {lsp.TEXT_DOCUMENT_CODE_ACTION: lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])}


def _word(text: Text, position: lsp.Position) -> tuple[str, lsp.Range | None]:
    """The word at a position, and its range."""
    if position.line >= len(text.lines):
        return "", None
    line = text.lines[position.line]
    span = word_at(line, len(line.encode("utf-16-le")[: 2 * position.character].decode("utf-16-le", "ignore")))
    return (line[slice(*span)], _range(text, position.line, *span)) if span else ("", None)


def _range(text: Text, line: int, start: int, end: int) -> lsp.Range:
    def at(column: int) -> lsp.Position:
        return lsp.Position(line, len(text.lines[line][:column].encode("utf-16-le")) // 2)

    return lsp.Range(at(start), at(end))


def _position(text: Text, offset: int) -> lsp.Position:
    """A place in characters as an editor counts: lines from 0, and columns in UTF-16."""
    line = text.content.count("\n", 0, offset)
    begin = text.content.rfind("\n", 0, offset) + 1
    return lsp.Position(line, len(text.content[begin:offset].encode("utf-16-le")) // 2)


def _diagnostic(d: Diag, text: Text, lang: str) -> lsp.Diagnostic:
    start, end = (d.span.start, max(d.span.end, d.span.start + 1)) if d.span else (0, len(text.lines[0]))
    help_ = d.suggestion(lang)
    related = [
        lsp.DiagnosticRelatedInformation(
            lsp.Location(
                from_fs_path(text.path) or "",
                lsp.Range(_position(text, label.span.start), _position(text, label.span.end)),
            ),
            str(label.note),
        )
        for label in d.labels
        if text.path and label.span
    ]
    return lsp.Diagnostic(
        lsp.Range(_position(text, start), _position(text, end)),
        d.why(lang) + (f"\n{help_}" if help_ else ""),
        _SEVERITY[SEVERITIES[d.code[0]]],
        d.code,
        source="tinyir",
        related_information=related or None,
    )


def _locations(uri: str, places: Iterable[Place]) -> list[lsp.Location]:
    return [
        lsp.Location(
            (from_fs_path(str(Path(p.text.path))) if p.text.path else None) or uri,
            _range(p.text, p.line, p.start, p.end),
        )
        for p in places
    ]


def _entries(word: str, lang: str) -> list[str]:
    """What the reference says of a word of the languages."""
    from ..reference import PAGES, find

    return [section.text for _, section in find(PAGES, plain(word), lang)] if not word.startswith("%") else []
