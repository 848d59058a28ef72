"""The graph DSL (seed 003): graphs of tensors that call one another.

    graph<B=1, N=1> relu(x: f32[B, N]) -> (y: f32[B, N]) {
        zero = 0.0
        result = max(x, zero)
        return result
    }
    graph<B=1, D=1> main(input: f32[B, D]) -> (output: f32[B, D]) {
        result = relu(input)
        return result
    }

`graph main` is the entry; calls of the other graphs are inlined, at most MOST_CALLS deep. Their shape variables are
the sizes that the arguments have; those of `main` are the model's symbols, and their defaults the shape set
`default` (`N=none` has none). A graph that nothing calls is checked as `main` is. A value is named as its variable,
inside a called graph as the variable that the call gives and then its own. What functions there are is front.dslcalls,
how operands agree front.dslexpr.

Beyond the seed, so that every tiny text can be said (front.to_dsl): a tensor may have attributes, `w: f16[K, N]
{role=param}`; a name may be written as in tiny text, `%gemm.mul`; `from gemm : GEMM at 17:5` says, like a line of tiny
text, where the values below it came from, and `from none` that they came from nowhere; `model NAME`, `sym N in 1..64`,
`shapes NAME {N=8}` and `must_fuse %a, %b`, which names values of the tiny text, may come beside the graphs.
"""

from __future__ import annotations

from typing import Any

from ..ir import tiny
from ..ir.expr import Expr
from ..ir.model import Model, Origin, Range, Shapes, Tensor, read_schema
from ..ir.read import name_of, read_at, read_attrs
from ..ir.types import TensorType
from ..ir.verify import values_of_op
from ..kit.diag import Diag, Label, Refused, collecting, refuse, refuse_all, used_at
from ..kit.phrase import Phrase
from ..kit.records import replace
from ..kit.span import Span
from ..kit.text import Grammar, token_span
from . import dslcalls, dslforms
from .builder import Builder, Literal, Place, Ref
from .dslexpr import Evaluator, Poisoned, Scope, Value, args_of, labels_of, span_of_tree
from .dslgraph import Graph, GraphReader, Param, names_in, renamed, word_of
from .ops.table import put_in
from .shorttypes import show_short

GRAMMAR = Grammar("graphdsl")
MOST_CALLS = 10  # deep
ENTRY = "main"


def read(text: str, name: str = ENTRY) -> tiny.Module:
    """The tiny module of a program. Raises Refused with every fault found: E0002, E01xx words, E02xx names, E10xx to
    E13xx."""
    program = _Program(text)
    module = program.module(GRAMMAR.parse(text), name)
    refuse_all(program.faults)
    return module


EXTRA = Param("result", None, None, (), None)  # what a return gives beyond the outputs


class _Program(GraphReader):
    """One text. After a fault its statement gives nothing, and what reads that is passed over."""

    def __init__(self, text: str):
        super().__init__(text)
        self.graphs: dict[str, Graph] = {}
        self.reached: set[str] = {ENTRY}
        self.builder = Builder()
        self.stated: Origin | None = None  # what a `from` line says
        self.is_stated = False
        self.steps: set[str] = set()  # the statements that a text's author wrote, each by its first variable

    def module(self, tree: Any, name: str) -> tiny.Module | None:
        """The module of the entry; None when nothing can be made of it."""
        said: dict[str, list[Any]] = {"model": [name], "range": [], "must_fuse": [], "shapes": []}
        for part in tree.children:
            with collecting(self.faults):
                if part.data == "graph":
                    self.declare(self.graph(part))
                else:
                    said[part.data].append(self.stated_by(part))
        main = self.graphs.get(ENTRY)
        if main is None:
            if not self.faults:
                self.fault("E0133", None, known=", ".join(self.graphs) or Phrase("none"))
            return None
        self.builder.limits.state(said["range"])
        inputs, results = self.alone(main)
        for graph in self.graphs.values():
            if graph.name not in self.reached and not graph.broken:
                self.check(graph)
        if self.faults:
            return None
        outputs = tuple(Tensor(p.name, p.type, p.attrs, span=p.span) for p in main.results)
        defaults = tuple((s, size) for s, size in main.symbols if size is not None)
        if defaults and not any(s.name == "default" for s in said["shapes"]):
            said["shapes"].insert(0, Shapes("default", defaults))
        model = Model(said["model"][-1], tuple(inputs), outputs, tuple(said["range"]), tuple(said["shapes"]))
        made = self.builder.finish(model, results)
        return replace(made, must_fuse=tuple(self.demand(made, one) for one in said["must_fuse"]))

    def demand(self, module: tiny.Module, one: tiny.MustFuse) -> tiny.MustFuse:
        """What must share a kernel, by values: of a variable all that came from its statement."""
        values = (v for n in one.values for v in (n in self.steps and values_of_op(module, n)) or (n,))
        return replace(one, values=tuple(dict.fromkeys(values)))

    def stated_by(self, part: Any) -> Any:
        """What a line outside of graphs states: the model's name, a range, values that share a kernel, or sizes."""
        if part.data == "range":
            symbol, low, high = part.children
            span = Span(symbol.start_pos, high.end_pos, symbol.line, symbol.column)
            return Range(str(symbol), int(low), int(high), span=span)
        if part.data == "must_fuse":
            tokens = [ident.children[0] for ident in part.children]
            return tiny.MustFuse(tuple(map(name_of, tokens)), span=token_span(tokens[0]))
        name = name_of(part.children[0].children[0])
        if part.data == "model":
            return name
        token = part.children[1]
        items = read_at(read_attrs, token, self.text)
        sizes = read_schema(items, {k: ("int", True) for k, _ in items}, name, token_span(token))
        return Shapes(name, sizes, span=token_span(token))

    def alone(self, graph: Graph) -> tuple[list[Tensor], list[tuple[str, Ref]]]:
        """The inputs and the results of a graph that nothing calls: its shape variables are symbols."""
        scope = Scope({s: Expr.of(s) for s, _ in graph.symbols}, dict.fromkeys(graph.broken))
        inputs = [Tensor(p.name, p.type, p.attrs, span=p.span) for p in graph.params]
        for tensor, param in zip(inputs, graph.params):
            scope.variables[param.name] = self.builder.input(tensor, Place(param.span))
        return inputs, self.outputs(graph, self.run(graph, scope, "", {}), scope.symbols)

    def check(self, graph: Graph) -> None:
        """Note the faults of a graph that is not part of the model, but for those that are known already."""
        kept, self.builder, before = self.builder, Builder(), self.faults
        stated, self.stated, self.is_stated, self.faults = (self.stated, self.is_stated), None, False, []
        self.reached.add(graph.name)
        self.alone(graph)
        known = {(d.code, d.span) for d in before}
        self.faults = [*before, *(d for d in self.faults if (d.code, d.span) not in known)]
        self.builder, (self.stated, self.is_stated) = kept, stated

    def declare(self, graph: Graph) -> None:
        if graph.name in self.graphs:
            self.fault(
                "E0201",
                graph.span,
                graph.name,
                (Label(self.graphs[graph.name].span, Phrase("first defined here")),),
                name=graph.name,
            )
            return
        self.graphs[graph.name] = graph

    # --- statements

    def run(self, graph: Graph, scope: Scope, prefix: str, names: dict[str, str]) -> list[Value] | None:
        """The values that a graph returns. A variable's values are called `prefix` and its name, or as `names` says.
        None where there is no return."""
        for position, statement in enumerate(graph.body):
            if statement.data in ("origin", "no_origin"):
                self.is_stated = True
                self.stated = self.origin(statement)
            elif statement.data == "give":
                if position + 1 < len(graph.body):
                    self.fault("E0132", span_of_tree(graph.body[position + 1]), graph.name, name=graph.name)
                return [
                    self.statement(t, scope, [names.get(r.name, prefix + r.name)])
                    for t, r in zip(statement.children, (*graph.results, *[EXTRA] * len(statement.children)))
                ]
            else:
                *targets, value = statement.children
                words = [name_of(t.children[0]) for t in targets]
                for target, word in zip(targets, words):
                    self.not_reserved(target.children[0], word)
                found = self.statement(value, scope, [names.get(w, prefix + w) for w in words])
                count = len(found) if isinstance(found, tuple) else 1
                if found is not None and count != len(words):
                    self.fault(
                        "E0205", span_of_tree(statement), words[0], op=word_of(value), given=len(words), wanted=count
                    )
                    found = None
                each = found if isinstance(found, tuple) else (found,) * len(words)
                scope.variables.update(zip(words, each))
        self.fault("E0132", graph.span, graph.name, name=graph.name)
        return None

    @staticmethod
    def origin(statement: Any) -> Origin | None:
        if statement.data == "no_origin":
            return None
        name, op, line, column = statement.children
        return Origin(name_of(name.children[0]), name_of(op.children[0]), int(line or 0), int(column or 0))

    def statement(self, tree: Any, scope: Scope, targets: list[str]) -> Value:
        """The right side of a statement: a variable is itself; anything else is a step of its own. None after a
        fault."""
        known: dict[int, Value] = {}
        count = len(self.faults)
        self.inline(tree, scope, targets, known)
        if len(self.faults) > count:
            return None
        if id(tree) in known:
            return known[id(tree)]
        span = span_of_tree(tree)
        if not self.is_stated:
            self.steps.add(targets[0])
        origin = (
            self.stated
            if self.is_stated
            else Origin(targets[0], word_of(tree), *((span.line, span.column) if span else ()))
        )
        self.builder.open(origin, targets[0])
        try:
            evaluator = Evaluator(self.builder, scope, self.text, known, dslcalls, dslforms, self.graphs)
            found = evaluator.values(tree, len(targets))
        except Poisoned:
            self.builder.drop()
            return None
        except Refused as fault:
            self.builder.drop()
            read = [scope.variables.get(name) for name in names_in(tree)]
            for d in (used_at(d, span) for d in fault.diags):
                labels = d.labels or (labels_of(read) if d.code[1:3] in ("10", "11", "13") else ())
                self.faults.append(Diag(d.code, targets[0], d.facts, d.span or span, labels, d.edit))
            return None
        if isinstance(found, Literal):
            self.builder.drop()
            return found
        given = found if isinstance(found, tuple) else (found,)
        tensors = targets if len(targets) == len(given) else [f"{targets[0]}.{i}" for i in range(len(given))]
        closed = self.builder.close(given, tensors, [None] * len(given), [Place(span)] * len(given))
        return closed if isinstance(found, tuple) else closed[0]

    # --- calls of other graphs

    def inline(self, tree: Any, scope: Scope, targets: list[str], known: dict[int, Value]) -> None:
        """The values of every call of a graph in an expression, the innermost first; a call that is the whole
        expression gives the targets their names."""
        pending = [(tree, True)]
        calls = []
        while pending:
            node, is_whole = pending.pop()
            if not hasattr(node, "data"):
                continue
            if node.data == "call" and str(node.children[0]) in self.graphs:
                calls.append((node, is_whole))
                continue  # its arguments are statements of their own
            pending += [(child, False) for child in node.children]
        for node, is_whole in reversed(calls):
            known[id(node)] = self.called(
                node, scope, targets if is_whole else [f"{targets[0]}.{node.children[0]}"], is_whole
            )

    def called(self, tree: Any, scope: Scope, targets: list[str], is_whole: bool) -> Value:
        graph = self.graphs[str(tree.children[0])]
        span = span_of_tree(tree)
        self.reached.add(graph.name)
        if graph.broken:
            return None
        if scope.depth >= MOST_CALLS:
            self.fault(
                "E0135",
                span,
                graph.name,
                (Label(graph.span, Phrase("defined here")),),
                name=graph.name,
                most=MOST_CALLS,
            )
            return None
        try:
            args = args_of(tree.children[1])
        except Refused as fault:
            self.faults += fault.diags
            return None
        named = {p.name: args.named[p.name] for p in graph.params[len(args.placed) :] if p.name in args.named}
        if len(args.placed) + len(args.named) != len(graph.params) or len(named) != len(args.named):
            self.fault(
                "E0204",
                span,
                graph.name,
                (Label(graph.span, Phrase("defined here")),),
                op=graph.name,
                given=len(args.placed) + len(args.named),
                wanted=len(graph.params),
            )
            return None
        trees = [*args.placed, *(named[p.name] for p in graph.params[len(args.placed) :])]
        given = [self.statement(t, scope, [f"{targets[0]}.{p.name}"]) for t, p in zip(trees, graph.params)]
        if None in given:
            return None
        inner = Scope({}, {}, scope.depth + 1)
        for param, value, arg in zip(graph.params, given, trees):
            try:
                inner.variables[param.name] = self.bind(param, value, inner.symbols, f"{targets[0]}.{param.name}")
            except Refused as fault:
                self.faults += [
                    Diag(
                        d.code,
                        graph.name,
                        d.facts,
                        span_of_tree(arg),
                        (
                            Label(
                                param.span, Phrase("{param} is {type}", param=param.name, type=show_short(param.type))
                            ),
                        ),
                    )
                    for d in fault.diags
                ]
                return None
        for symbol, default in graph.symbols:
            inner.symbols.setdefault(symbol, Expr.of(default if default is not None else symbol))
        count = len(self.faults)
        kept = self.stated, self.is_stated
        found = self.run(graph, inner, f"{targets[0]}.", renamed(graph, targets, is_whole))
        self.stated, self.is_stated = kept
        if found is None or len(self.faults) > count:
            return None
        results = self.outputs(graph, found, inner.symbols)
        if len(self.faults) > count:
            return None
        refs = tuple(ref for _, ref in results)
        return refs if len(refs) != 1 else refs[0]

    def bind(self, param: Param, value: Value, symbols: dict[str, Expr], name: str) -> Ref:
        """An argument as a parameter takes it; the parameter's shape variables are what the argument's sizes are.
        Raises Refused (E1002, E1012, E1304)."""
        if isinstance(value, tuple):
            raise refuse("E0205", op=param.name, given=len(value), wanted=1)
        if isinstance(value, Literal):
            return self.constant(value, TensorType(param.type.dtype, ()), name)
        if value.dtype != param.type.dtype:
            raise refuse(
                "E1002",
                fault=Phrase(
                    "{param} is {type}, but {type2} is given",
                    param=param.name,
                    type=show_short(param.type),
                    type2=show_short(value.type),
                ),
            )
        if value.rank != param.type.rank:
            raise refuse("E1012", op=param.name, tensor=value.called, given=value.type, wanted=param.type.rank)
        for axis, (dim, size) in enumerate(zip(param.type.shape, value.shape)):
            known = symbols.setdefault(dim.name, size) if dim.name is not None else put_in(dim, symbols, param.name)
            if known != size:
                raise refuse(
                    "E1304",
                    left=f"{param.name}[{axis}] = {known}",
                    right=f"{value.tensor or value.name}[{axis}] = {size}",
                )
        return value

    def constant(self, literal: Literal, type: TensorType, name: str) -> Ref:
        """A number as a value of its own."""
        self.builder.open(self.stated if self.is_stated else Origin(name, "const"), name)
        made = self.builder.const(literal.value, type.dtype, type.shape)
        return self.builder.close([made], [name], [None], [Place()])[0]

    def outputs(self, graph: Graph, given: list[Value] | None, symbols: dict[str, Expr]) -> list[tuple[str, Ref]]:
        """What a graph returns, each of the type that its header declares (E0205, E1306)."""
        if given is None or "->" in graph.broken:
            return []
        if len(given) != len(graph.results):
            self.fault(
                "E0205",
                span_of_tree(graph.body[-1]),
                graph.name,
                (Label(graph.span, Phrase("declared here")),),
                op=graph.name,
                given=len(given),
                wanted=len(graph.results),
            )
            return []
        found = []
        for param, value in zip(graph.results, given):
            declared = TensorType(param.type.dtype, tuple(put_in(d, symbols, param.name) for d in param.type.shape))
            if isinstance(value, tuple):
                self.fault(
                    "E0205",
                    span_of_tree(graph.body[-1]),
                    graph.name,
                    op=Phrase("a call in return"),
                    given=len(value),
                    wanted=1,
                )
            elif isinstance(value, Literal):
                found.append((param.name, self.constant(value, declared, param.name)))
            elif value is not None and value.type != declared:
                label = (
                    Label(
                        value.place.span,
                        Phrase("{value} is {type}", value=value.name or value.tensor, type=show_short(value.type)),
                    )
                    if value.place.span
                    else None
                )
                self.fault(
                    "E1306",
                    param.span,
                    graph.name,
                    (label,) if label else (),
                    tensor=param.name,
                    declared=show_short(declared),
                    inferred=show_short(value.type),
                    fitting=show_short(value.type),
                    op=graph.name,
                )
            elif value is not None:
                found.append((param.name, value))
        return found
