"""The server itself, on pygls: diagnostics, hover, definition, references, rename, formatting, quick fixes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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


def server(lang: str) -> LanguageServer:
    """A server that speaks `lang`."""
    made = LanguageServer("tiny-lsp", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
    faults: dict[str, list[Diag]] = {}

    def text_of(uri: str) -> Text:
        document = made.workspace.get_text_document(uri)
        return Text(to_fs_path(uri) or "", document.source)

    def all_texts(uri: str) -> list[Text]:
        """The text, and those of its journey, as they are in the editor where it has them open."""
        open_ = {to_fs_path(u): d.source for u, d in made.workspace.text_documents.items()}
        first = text_of(uri)
        return [first, *(Text(t.path, open_.get(t.path, t.content)) for t in journey_of(first))]

    def tell(uri: str, is_whole: bool) -> None:
        text = text_of(uri)
        faults[uri] = faults_of(text, is_whole)
        shown = [_diagnostic(d, text, lang) for d in faults[uri] if not d.code.startswith("R")]
        made.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=shown))

    @made.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        tell(params.text_document.uri, True)

    @made.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        tell(params.text_document.uri, True)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        tell(params.text_document.uri, False)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        faults.pop(params.text_document.uri, None)

    @made.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        text, found = _word(text_of(params.text_document.uri), params.position)
        if not found:
            return None
        said = [f"```\n{fact}\n```" for fact in facts_of(all_texts(params.text_document.uri), plain(text))]
        said += _entries(text, lang)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n".join(said)), found) if said else None

    @made.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
        word, found = _word(text_of(params.text_document.uri), params.position)
        if not found:
            return []
        places = (definition_of(text, plain(word)) for text in all_texts(params.text_document.uri))
        return _locations(params.text_document.uri, [p for p in places if p is not None])

    @made.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        word, found = _word(text_of(params.text_document.uri), params.position)
        if not found:
            return []
        places = (p for text in all_texts(params.text_document.uri) for p in places_of(text, plain(word)))
        return _locations(params.text_document.uri, places)

    @made.feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        uri = params.text_document.uri
        text = text_of(uri)
        word, found = _word(text, params.position)
        new = plain(params.new_name)
        is_number = text.language == "coreir" and word.startswith("%")
        if not found or is_number != new.isdigit() or any(True for _ in places_of(text, new)):
            return None  # a name that is taken would make two things one; values of Core IR are numbers
        edits = [lsp.TextEdit(_range(p.text, p.line, p.start, p.end), new) for p in places_of(text, plain(word))]
        return lsp.WorkspaceEdit({uri: edits})

    @made.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        text = text_of(params.text_document.uri)
        made_of = formatted(text)
        if made_of is None or made_of == text.content:
            return []
        return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), lsp.Position(len(text.lines), 0)), made_of)]

    @made.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]))
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        text, asked = text_of(uri), params.range
        found = []
        for d in faults.get(uri, []):
            shown = _diagnostic(d, text, lang)
            if d.edit is None or shown.range.end < asked.start or asked.end < shown.range.start:
                continue
            place = lsp.Range(_position(text, d.edit.span.start), _position(text, d.edit.span.end))
            edit = lsp.WorkspaceEdit({uri: [lsp.TextEdit(place, d.edit.text)]})
            title = d.edit.text.strip() or d.suggestion(lang)
            found.append(
                lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, diagnostics=[shown], is_preferred=True, edit=edit)
            )
        return found

    return made


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


__all__ = ["server"]
