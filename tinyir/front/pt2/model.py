"""An exported graph as it comes: its inputs given types, its nodes translated in their order.

A node that an earlier fault touches is passed over, so that one fault is one message; ops that nothing translates are
named all at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.expr import Expr
from ...ir.model import RESERVED_SYMBOLS, Range
from ...ir.types import DType
from ...kit.diag import Diag, Refused, refuse
from ...kit.phrase import Listing, Phrase
from ..limits import MOST
from ..ops.table import put_in
from ..program.names import bare
from ..program.program import Program
from ..program.sizes import no_input, other_shape, size_given, unfit
from ..program.terms import Term, known
from .archive import NAMES, PAIRS, Archive, Stored, dtype_of, following
from .call import Call
from .changes import MUTATIONS, changed_by, silently_changed, written_first
from .complexes import SIDES, Complex, complex_of
from .nodes import functional, is_size, memory_of, module_of, named_by, names_in, number_of, only_checks, word_of
from .results import is_translated, result_of
from .sizes import bound_of, size_of
from .table import ATEN_OPS
from .views import NEVER, SURE, Shared, put_back, sharing, taken_again, turns, wholes_of
from .wrapped import unwrapped

Words = Mapping[str, Sequence[str]]
FAULTY = object()
STATE = {"role": "state", "mutability": "mutable"}
MAX_NODES = 50_000
PAIRED = "view_as_complex.default"
MOST_NAMED = 4  # nodes that a message names of each op


def program_of(
    archive: Archive, shapes: Words, ranges: Mapping[str, tuple[int, int]]
) -> tuple[str, Program, list[str], list[str]]:
    """The model's name, its program, and the names of its inputs and outputs. Raises Refused with every fault found."""
    with following(Phrase("models/model.json is not as the schema has it")):
        module = archive.model["graph_module"]
        return _Graph(archive, unwrapped(module["graph"]), module["signature"], shapes, ranges).program_of()


class _Graph:
    def __init__(self, archive: Archive, graph: Any, signature: Any, shapes: Words, ranges: Any):
        self.archive, self.graph, self.signature = archive, graph, signature
        self.values: dict[str, Any] = {}
        self.faults: list[Diag] = []
        self.sizes = {n: s for n, s in graph["sym_int_values"].items() if "as_expr" in s}  # read where they are used
        self.buffers: dict[str, str] = {}  # of the module, and the inputs of the graph that they are
        self.inputs, self.bound = self._inputs()
        self.outputs = self._outputs()
        self.given = self._given(shapes)
        self.changed = changed_by(graph, signature, self.buffers, {*self.inputs, *self.bound})
        kept = {*self.inputs, *self.outputs}
        if len(graph["nodes"]) > MAX_NODES:
            raise refuse("E0006", what=Phrase("the graph (at most {most} nodes)", most=MAX_NODES))
        self.program = Program(kept, archive, {t.name for t in self.bound.values()} - kept)
        self._state(ranges)
        self.last_read = self._last_reads()
        self.shared = Shared()
        self.states: dict[str, str] = {}  # what the graph changes, and its name in the program
        self.named: dict[str, str] = {}  # outputs that are copies, and their names
        self.order: dict[str, list[int]] = {}  # of states whose axes memory has in another order

    # --- the signature

    def _inputs(self) -> tuple[list[str], dict[str, Stored]]:
        """The inputs that a caller gives, and the tensors of the archive, by their names in the graph."""
        inputs: list[str] = []
        bound: dict[str, Stored] = {}
        for spec in self.signature["input_specs"]:
            ((kind, entry),) = spec.items()
            if kind == "user_input":
                if "as_tensor" in entry["arg"]:
                    inputs.append(entry["arg"]["as_tensor"]["name"])
                elif "as_none" not in entry["arg"]:
                    self._scalar(entry["arg"])
            elif kind in ("parameter", "buffer", "tensor_constant"):
                held = entry[f"{kind}_name" if kind != "tensor_constant" else "tensor_constant_name"]
                name = entry["arg"]["name"]
                if held not in self.archive.tensors:
                    raise refuse("E0127", held, tensor=held, reason=Phrase("the archive has no tensor of this name"))
                bound[name] = self.archive.tensors[held]
                self.buffers[held] = name
            elif kind == "constant_input":
                self.values[entry["name"]] = number_of(entry["value"])
            else:
                raise refuse("E0126", str(entry.get("arg", {}).get("name", kind)), type=kind.replace("_", " "))
        return inputs, bound

    def _scalar(self, arg: Any) -> None:
        """An input that is a number, which export has made a constant or a symbol."""
        ((kind, value),) = arg.items()
        if isinstance(value, dict) and "as_name" in value:
            raise refuse("E0126", value["as_name"], type=Phrase("a number that is an input"))
        _ = kind

    def _outputs(self) -> list[str]:
        found = []
        for spec in self.signature["output_specs"]:
            ((kind, entry),) = spec.items()
            if kind in MUTATIONS:
                continue
            if kind == "user_output" and "as_tensor" in entry["arg"]:
                found.append(entry["arg"]["as_tensor"]["name"])
            elif kind != "user_output" or "as_none" not in entry["arg"]:
                raise refuse(
                    "E0126", "output", type=Phrase("an output that is {replace}", replace=kind.replace("_", " "))
                )
        return list(dict.fromkeys(found))

    def _given(self, shapes: Words) -> dict[str, Expr]:
        """What the symbols are, where a caller fixes the shapes of inputs (E0128)."""
        found: dict[str, Expr] = {}
        for name, words in shapes.items():
            if name not in self.inputs:
                raise no_input(name, self.inputs)
            _, own = self._type_of(name, {})
            if len(own) != len(words):
                raise other_shape(name, own, words)
            for size, word in zip(own, words):
                given = size_given(name, word)
                symbol = size.name
                if size == given:
                    continue
                if symbol is None or found.setdefault(symbol, given) != given:
                    raise other_shape(name, own, words)
        return found

    def _state(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        """The ranges of the symbols: those of the archive, with those of the caller. Raises Refused (E0128) for a
        size outside its range."""
        stated: dict[str, tuple[int, int]] = dict(ranges)
        for word, entry in (self.archive.model.get("range_constraints") or {}).items():
            low, high = (bound_of(entry.get(key), end) for key, end in (("min_val", 0), ("max_val", MOST)))
            size = self.given.get(word, Expr.of(word))
            if size.constant is not None and not low <= size.constant <= high:
                fault = Phrase(
                    "{size} is outside of {low}..{high}, for which it was exported", size=size, low=low, high=high
                )
                raise unfit(word, fault, Phrase("export it for a range with {size}, or give a size inside", size=size))
            if size.name is not None:
                own = stated.get(size.name, (low, high))
                stated[size.name] = max(low, own[0]), min(high, own[1])
        self.program.builder.limits.state(Range(symbol, low, high) for symbol, (low, high) in stated.items())

    def _type_of(self, name: str, given: Mapping[str, Expr]) -> tuple[DType, tuple[Expr, ...]]:
        """The dtype and shape that the archive states of a value."""
        meta = self.graph["tensor_values"][name]
        shape = tuple(put_in(size_of(s), given, name) for s in meta["sizes"])
        for size in shape:
            for symbol in size.names():
                if RESERVED_SYMBOLS.match(symbol):
                    raise refuse("E0141", name, reason=Phrase("{symbol} cannot be a symbol", symbol=symbol))
        return dtype_of(meta["dtype"], name), shape

    def _is_complex(self, name: str) -> bool:
        return self.graph["tensor_values"][name]["dtype"] in PAIRS

    def _must_be_real(self, name: str) -> None:
        """What a caller gives or gets. Raises Refused (E0126)."""
        if self._is_complex(name):
            raise refuse("E0126", name, type=NAMES[self.graph["tensor_values"][name]["dtype"]])

    def _last_reads(self) -> dict[str, int]:
        """The last node that reads each value, by number; the caller reads after all of them."""
        found: dict[str, int] = {}
        for number, node in enumerate(self.graph["nodes"]):
            for argument in node["inputs"]:
                found.update(dict.fromkeys(names_in(argument["arg"]), number))
        kept = (*self.outputs, *(value for value in self.changed.values() if value))
        return found | dict.fromkeys(kept, len(self.graph["nodes"]))

    # --- the program

    def program_of(self) -> tuple[str, Program, list[str], list[str]]:
        """What the module's `program_of` gives."""
        for name in self.inputs:
            self._try(name, [name], lambda name=name: self._input(name))
        for name, tensor in self.bound.items():
            self._try(name, [name], lambda name=name, tensor=tensor: self._held(name, tensor))
        unsupported = self._unsupported()
        for number, node in enumerate(self.graph["nodes"]):
            if node["target"] not in unsupported:
                self._try(
                    node["name"] or node["target"],
                    named_by(node["outputs"]),
                    lambda node=node, number=number: self._node(node, number),
                )
            else:
                self.values.update((name, FAULTY) for name in named_by(node["outputs"]))
        for name in self.outputs:
            self._try(name, [], lambda name=name: self._output(name))
        for name, value in self.changed.items():
            self._try(name, [], lambda name=name, value=value: self._changed(name, value))
        if unsupported:
            self.faults.insert(0, Diag("E0143", "", {"ops": Listing(unsupported.values(), "; ")}))
        if self.faults:
            raise Refused(self.faults)
        root = self.archive.root.rstrip("/").rpartition("/")[2]
        named = bare(root) if re.search(r"\w", root) else "main"
        states = [name for name in self.states.values() if name not in self.inputs]
        news = [name for name in self.program.updates if name not in self.outputs]
        return named, self.program, [*self.inputs, *states], [*(self.named.get(n, n) for n in self.outputs), *news]

    def _try(self, at: str, outputs: Sequence[str], make: Any) -> None:
        try:
            make()
        except Refused as fault:
            self.faults += [Diag(d.code, d.at or at, d.facts) for d in fault.diags]
            self.values.update((name, FAULTY) for name in outputs)

    def _input(self, name: str) -> None:
        attrs = STATE if name in self.changed else {}
        self._must_be_real(name)
        self.values[name] = self.program.input(name, *self._type_of(name, self.given), **attrs)
        if name in self.changed:
            self.states[name] = name

    def _held(self, name: str, tensor: Stored) -> None:
        """A weight: its value where that is small, else a tensor that stays in the archive. One whose axes memory has
        in another order is stored so, and transposed."""
        if name not in self.last_read and name not in self.changed:
            return
        order = tensor.order()
        if order is None:
            self.archive.place(tensor)  # says why not
            order = list(range(len(tensor.shape)))
        stored = Stored(
            tensor.name,
            tensor.dtype,
            tuple(tensor.shape[a] for a in order),
            tuple(tensor.strides[a] for a in order),
            tensor.start,
            tensor.member,
            tensor.is_pickled,
        )
        term = Term(stored.dtype, tuple(map(Expr.of, stored.shape)), tensor=stored)
        if name in self.changed:
            self._kept(name, term)
        elif self.archive.is_written(tensor):
            term = known(self.archive.array(stored), stored.dtype)
            term.label = bare(tensor.name)
        if order != sorted(order):
            self.order[name] = order
            perm = [order.index(a) for a in range(len(order))]
            term = Call("permute", bare(tensor.name), {}, [], [], self.program).transpose(term, perm)
        if tensor.is_complex:
            types = [(term.dtype, term.shape[:-1])]
            self.values[name] = Call(PAIRED, bare(tensor.name), {"self": term}, types, [True], self.program).translated(
                ATEN_OPS[PAIRED]
            )
            return
        self.values[name] = term

    def _kept(self, name: str, term: Term) -> None:
        """A buffer that the program changes: a state, whose first value is in the archive. Raises Refused (E0127) where
        a text cannot say where."""
        place = self.archive.place(term.tensor)
        if not place:
            reason = Phrase("it is a state, whose first value can only be read from an uncompressed file")
            raise refuse("E0127", term.tensor.name, tensor=term.tensor.name, reason=reason)
        own = self.program.own(term.tensor.name)
        made = self.program.input(own, term.dtype, term.shape, **STATE, **place)
        term.name, term.ref = made.name, made.ref
        self.states[name] = own

    def _changed(self, name: str, value: str) -> None:
        """State that a value is what a state becomes. One that is something else as well is a copy."""
        term = self._tensor(value or name) if (value or name) in self.values else None
        if term is FAULTY or name not in self.states:
            return
        if not isinstance(term, Term):
            raise refuse("E0141", name, reason=Phrase("{name} is read and no node gives it", name=value or name))
        state, base = self.states[name], f"{bare(self.states[name])}.new"
        dtype, _ = self._type_of(name, self.given)
        call = Call("state", base, {}, [], [], self.program)
        term = call.cast(term, dtype)
        if name in self.order:
            term = call.transpose(term, self.order[name])
        is_own = term.ref is not None and self.program.made.get(term.name) is term
        if not is_own or term.name in self.outputs or term.name in self.program.updates:
            (term,) = self.program.op("Elementwise", [self.program.put(term)], base, fn="identity")
        assert term.ref is not None
        self.program.declare(term.name, term.ref)
        self.program.updates[term.name] = state

    def _unsupported(self) -> dict[str, str]:
        """Every op that no translation knows, with the modules that hold its nodes."""
        found: dict[str, list[str]] = {}
        for node in self.graph["nodes"]:
            if not self._is_known(node):
                at, module = node["name"] or Phrase("a node"), module_of(node)
                at = Phrase("{node} of {module}", node=at, module=module) if module else at
                found.setdefault(node["target"], []).append(at)
        return {
            op: Phrase(
                "{op} ({nodes})",
                op=word_of(op),
                nodes=Listing([*at[:MOST_NAMED], "..."] if len(at) > MOST_NAMED else at),
            )
            for op, at in found.items()
        }

    def _is_known(self, node: Any) -> bool:
        word = functional(word_of(node["target"]))
        return is_translated(word) or only_checks(word) or bool(node["outputs"]) and all(map(is_size, node["outputs"]))

    def _node(self, node: Any, number: int) -> None:
        stated, outputs = word_of(node["target"]), named_by(node["outputs"])
        word = functional(stated)
        if only_checks(word) or all(map(is_size, node["outputs"])):
            return
        args = {a["name"]: self._argument(a["arg"]) for a in node["inputs"]}
        if any(a is FAULTY or isinstance(a, list) and FAULTY in a for a in args.values()):
            self.values.update((name, FAULTY) for name in outputs)
            return
        types = [self._type_of(name, self.given) for name in outputs]
        name = bare(node["name"] or outputs[0])
        written = (written_first(node, stated) or [""])[0]
        silent = silently_changed(node, stated)
        if written:
            self._check_written(stated, written, number)
        memory = memory_of(node, self.graph["tensor_values"])
        call = Call(word, name, args, types, [n in self.last_read for n in outputs], self.program, memory)
        start = len(self.program.ops)
        found = result_of(call)
        results = found if isinstance(found, tuple) else (found,)
        for tensor, new in zip(silent.values(), results[len(outputs) :]):
            self._check_written(stated, tensor, number)
            self._wrote(tensor, new, number)
        for output, result, (dtype, shape) in zip(outputs, results, types):
            if output in self.last_read or written:
                self._settle(call, output, result, dtype, shape, start)
        if written:
            self.shared.note_written(outputs[0], written)
            self._wrote(written, self.values[outputs[0]], number)
        elif (how := sharing(node, word, self.graph["tensor_values"])) != NEVER:
            self.shared.note_views(wholes_of(node, outputs), call, how == SURE)

    def _check_written(self, op: str, name: str, number: int) -> None:
        """Raises Refused where it cannot be told what else a write changes: of what the caller gave or the model keeps
        (E0145), or of another value that may share the memory and is read later (E0144)."""
        first = self.shared.first(name)
        can_follow = self.shared.can_be_put_back(name) and not turns(functional(op))
        if (first in self.inputs or first in self.bound) and first not in self.shared.same(name) and not can_follow:
            raise refuse("E0145", name, tensor=first)
        for other in self._read_later(name, number):
            if not (can_follow and self.shared.is_known(other)):
                fault = Phrase(
                    "it writes to {name}, and {other}, which shares its memory, is read later; "
                    "run_decompositions() gives a program that writes nothing",
                    name=name,
                    other=other,
                )
                raise refuse("E0144", op=op, fault=fault)

    def _read_later(self, name: str, number: int) -> list[str]:
        """What may share the memory of a tensor, and is read behind a node, or is a state."""
        others = self.shared.others(name)
        return [n for n in others if self.last_read.get(n, -1) > number or n in self.changed]

    def _wrote(self, name: str, term: Any, number: int) -> None:
        """A tensor is what a node wrote to it: so are its whole and all views of that."""
        self._become(name, term)
        if not self._read_later(name, number):
            return
        others = set(self.shared.others(name))
        while (step := self.shared.view(name)) is not None:
            name, call, place = step
            term = put_back(call, place, self._tensor(name), term)
            others -= self._become(name, term)
        self.shared.old |= others

    def _become(self, name: str, term: Any) -> set[str]:
        same = self.shared.same(name)
        self.values.update(dict.fromkeys(same, term))
        self.shared.old -= same
        return same

    def _settle(self, call: Call, output: str, term: Term, dtype: DType, shape: tuple[Expr, ...], start: int) -> None:
        """Give a result the name that the graph has for it, once it is what the archive says. Raises Refused
        (E0146)."""
        if self._is_complex(output):
            self.values[output] = Complex(*(call.cast(p, dtype) for p in complex_of(call, term).parts))
            return
        term = call.cast(term.real if isinstance(term, Complex) else term, dtype)
        if len(term.shape) != len(shape) or any(
            a != b and a.constant is not None and b.constant is not None for a, b in zip(term.shape, shape)
        ):
            given, found = (f"{d}[{', '.join(map(str, own))}]" for d, own in ((dtype, shape), (term.dtype, term.shape)))
            raise refuse("E0146", call.name, tensor=output, given=given, found=found)
        own = {name for entry in self.program.ops[start:] for name in entry["outputs"]}
        if term.ref is None and not term.label and term.tensor is None:
            term.label = bare(output)
        if term.name in own:
            self.program.rename(term, output if output in self.outputs else self.program.fresh(bare(output)))
        self.values[output] = term

    def _output(self, name: str) -> None:
        """State the type of an output of the model; one that is an input, a weight or another output as well is a copy
        under its own name."""
        term = self._tensor(name) if name in self.values else None
        if term is FAULTY:
            return
        self._must_be_real(name)
        if not isinstance(term, Term):
            raise refuse("E0141", name, reason=Phrase("{name} is read and no node gives it", name=name))
        if name not in self.program.made or self.program.made[name] is not term:
            term = self.program.put(term)
            (same,) = self.program.op("Elementwise", [term], f"{bare(name)}.same", fn="identity")
            own = self.program.fresh(f"{bare(name)}.out") if name in self.inputs else name
            if own in self.program.made:  # it was written to since
                self.program.rename(self.program.made[own], self.program.fresh(f"{bare(name)}.before"))
            self.program.rename(same, own)
            term, self.named[name] = same, own
        assert term.ref is not None
        self.program.declare(term.name, term.ref)

    def _argument(self, arg: Any) -> Any:
        """An argument as `Call.args` has it."""
        ((kind, value),) = arg.items()
        if kind == "as_none":
            return None
        if kind == "as_tensor":
            return self._tensor(value["name"])
        if kind == "as_tensors":
            return [self._tensor(v["name"]) for v in value]
        if kind == "as_optional_tensors":
            return [None if "as_none" in v else self._tensor(v["as_tensor"]["name"]) for v in value]
        if kind == "as_optional_tensor":
            return None if "as_none" in value else self._tensor(value["as_tensor"]["name"])
        if kind == "as_sym_int":
            return self._size(value)
        if kind == "as_sym_ints":
            return [self._size(v) for v in value]
        if kind == "as_float":
            return float(value)
        if kind == "as_floats":
            return [float(v) for v in value]
        if kind == "as_complex":
            return Complex(*(known(float(value[side]), "fp32") for side in SIDES))
        if kind == "as_scalar_type":
            return dtype_of(value, "dtype")
        if kind in ("as_int", "as_bool", "as_string", "as_ints", "as_bools", "as_strings"):
            return value
        if kind in ("as_device", "as_layout", "as_memory_format"):
            return None
        raise refuse(
            "E0126", type=Phrase("an argument of kind {replace}", replace=kind.removeprefix("as_").replace("_", " "))
        )

    def _tensor(self, name: str) -> Any:
        if name not in self.values:
            raise refuse("E0141", name, reason=Phrase("{name} is read before any node gives it", name=name))
        step = self.shared.view(name) if name in self.shared.old else None
        if step is not None:
            whole, call, number = step
            self._become(name, taken_again(call, number, self._tensor(whole)))
        return self.values[name]

    def _size(self, value: Any) -> Any:
        """A size: a number where it is one."""
        if "as_int" in value:
            return int(value["as_int"])
        name = value["as_name"]
        if name not in self.sizes:
            found = self.values.get(name)
            if isinstance(found, int):
                return found
            raise refuse("E0141", name, reason=Phrase("the size {name} is not stated", name=name))
        try:
            size = put_in(size_of(self.sizes[name]), self.given, name)
        except ValueError as fault:
            raise refuse("E0141", name, reason=str(fault)) from None
        return size if size.constant is None else size.constant
