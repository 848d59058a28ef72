"""The reference: a page for each table that the code reads, made of that table, so that nothing can be in one and not
in the other. `words/` has what a table does not say. `docs/reference/` is what this prints; `tiny-explain NAME` finds
an entry here."""

from .page import PAGES, Page, Section, find, names, page_named, text_of

__all__ = ["PAGES", "Page", "Section", "find", "names", "page_named", "text_of"]
