"""What the tests of taste ask of a module's source, found in one walk and kept as names, since a tree takes far more
room than its text."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES_AN_ATTRIBUTE = ("getattr", "hasattr")
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Import:
    """One name that is imported: `module.name` for `from module import name` (relative ones made absolute), `module`
    and no name for `import module`."""

    line: int
    module: str
    name: str
    is_at_top: bool

    @property
    def dotted(self) -> str:
        """Module and name in one."""
        return f"{self.module}.{self.name}" if self.name and self.module else self.module or self.name


@dataclass(frozen=True, slots=True)
class Source:
    """A module: its imports; the functions and classes that it defines; every name that it binds by an import, a
    definition or a store; the functions that it calls by a bare name; the attributes that it reads or names in
    `getattr`; the words that it compares something with; the names in `__all__`; the other strings that could be names;
    what it defines at its top and does not use itself; the public members of its classes without a base; the public
    definitions without a docstring; whether it has none itself; and how many statements it has."""

    imports: tuple[Import, ...]
    defined: tuple[str, ...]
    bound: frozenset[str]
    called: frozenset[str]
    attributes: frozenset[str]
    compared: frozenset[str]
    listed: frozenset[str]
    strings: frozenset[str]
    idle: tuple[str, ...]
    members: tuple[str, ...]
    undocumented: tuple[str, ...]
    is_undocumented: bool
    statements: int


@functools.cache
def source_of(file: Path) -> Source:
    """The source of one file of the repository. A file is parsed once in a process."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    at_top = {id(node) for node in tree.body}
    package = file.relative_to(ROOT).parent.parts
    imports: list[Import] = []
    defined: list[str] = []
    bound: set[str] = set()
    called: set[str] = set()
    attributes: set[str] = set()
    compared: set[str] = set()
    strings: set[str] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            imports += [Import(node.lineno, alias.name, "", id(node) in at_top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            words = [
                *(package[: len(package) - node.level + 1] if node.level else ()),
                *([node.module] if node.module else ()),
            ]
            imports += [Import(node.lineno, ".".join(words), alias.name, id(node) in at_top) for alias in node.names]
        elif isinstance(node, DEFINITIONS):
            defined.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            strings.add(node.value)
        if isinstance(node, ast.Attribute):
            attributes.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES_AN_ATTRIBUTE:
            attributes |= _words_of(*node.args[1:2])
        elif isinstance(node, ast.Compare):
            compared |= _words_of(node.left, *node.comparators)
        elif isinstance(node, ast.MatchValue):
            compared |= _words_of(node.value)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    missing = tuple(node.name for node in _public(tree) if not ast.get_docstring(node))
    listed = frozenset(_listed(tree))
    is_undocumented = bool(tree.body) and not ast.get_docstring(tree)
    return Source(
        tuple(imports),
        tuple(defined),
        frozenset(bound | set(defined)),
        frozenset(called),
        frozenset(attributes),
        frozenset(compared),
        listed,
        frozenset(strings) - listed,
        _idle(tree),
        _members(tree),
        missing,
        is_undocumented,
        sum(isinstance(node, ast.stmt) for node in nodes),
    )


def _words_of(*nodes: ast.AST) -> set[str]:
    """The string constants in these expressions."""
    return {
        n.value for node in nodes for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }


def _listed(tree: ast.Module) -> set[str]:
    """The names in `__all__`."""
    lists = [n for n in tree.body if isinstance(n, ast.Assign) and "__all__" in _names_in(n.targets, ast.Store)]
    return _words_of(*lists)


def _names_in(nodes: Iterable[ast.AST], how: type[ast.expr_context]) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, how)}


def _idle(tree: ast.Module) -> tuple[str, ...]:
    """Functions, classes and constants at the top that no other statement of the module uses. A decorator may keep what
    it decorates, but for those of records, caches and the like, which give it back."""
    own: dict[int, set[str]] = {}
    for number, node in enumerate(tree.body):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            own[number] = _names_in(node.targets if isinstance(node, ast.Assign) else [node.target], ast.Store)
        elif isinstance(node, DEFINITIONS) and all(_gives_back(d) for d in node.decorator_list):
            own[number] = {node.name}
    used = [_names_in([node], ast.Load) for node in tree.body]
    elsewhere = {n: set().union(*(u for other, u in enumerate(used) if other != n)) for n in own}
    return tuple(name for n, names in own.items() for name in sorted(names - elsewhere[n]) if name[:2] != "__")


def _gives_back(decorator: ast.expr) -> bool:
    return not {"dataclass", "cache", "lru_cache", "contextmanager"}.isdisjoint(
        n.id if isinstance(n, ast.Name) else n.attr
        for n in ast.walk(decorator)
        if isinstance(n, (ast.Name, ast.Attribute))
    )


def _members(tree: ast.Module) -> tuple[str, ...]:
    """Public fields, properties and methods of classes whose names no base can ask for."""
    return tuple(
        name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.bases
        for item in node.body
        for name in ([item.name] if isinstance(item, DEFINITIONS) else _names_in([item], ast.Store))
        if not name.startswith("_")
    )


def _public(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    top = [node for node in tree.body if isinstance(node, DEFINITIONS)]
    methods = [
        m
        for c in top
        if isinstance(c, ast.ClassDef) and not c.name.startswith("_")
        for m in c.body
        if isinstance(m, ast.FunctionDef)
    ]
    return [node for node in top + methods if not node.name.startswith("_")]
