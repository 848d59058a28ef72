"""Graphs as torch traces them, without torch: nodes that look like those of torch.fx, lowered and played."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tinyir.dynamo.binding import sizes_from
from tinyir.dynamo.compiler import Options, called
from tinyir.dynamo.cut import better_by_torch, supported_of
from tinyir.dynamo.graph import Unsayable, schema_of
from tinyir.dynamo.on_cpu import in_memory
from tinyir.dynamo.piece import Piece
from tinyir.dynamo.rebased import rebase
from tinyir.kit.diag import Refused
from tinyir.play.region import play


class dtype(str):  # noqa: N801 (what torch calls it)
    """torch.float32."""

    def __str__(self) -> str:
        return f"torch.{self[:]}"


class SymInt:
    """A size that is a symbol of a shape environment."""

    def __init__(self, text: str, low: int = 2, high: Any = None):
        symbols = [w for w in text.replace("*", " ").replace("+", " ").split() if w.isidentifier()]
        bounds = SimpleNamespace(lower=number(low), upper=number(high) if high else SimpleNamespace(is_Integer=False))
        self.node = SimpleNamespace(
            expr=SimpleNamespace(is_Integer=False, free_symbols=symbols, __str__=lambda: text),
            shape_env=SimpleNamespace(var_to_range=dict.fromkeys(symbols, bounds)),
        )
        self.node.expr = Spelt(text, symbols)


class Spelt:
    """A SymPy expression, as far as it is asked."""

    is_Integer = False

    def __init__(self, text: str, symbols: list[str]):
        self.text, self.free_symbols = text, symbols

    def __str__(self) -> str:
        return self.text


def number(value: int) -> Any:
    class Integer(int):
        is_Integer = True

    return Integer(value)


@dataclass(frozen=True)
class Device:
    """torch.device."""

    type: str = "cpu"
    index: int | None = None


TENSORS = ("self", "input", "other", "weight", "bias", "mat1", "mat2")  # arguments of ops that are such


class Storage:
    """The memory of a tensor: each has its own, of a size that nobody knows."""

    def __init__(self, place: int):
        self._cdata = place

    def nbytes(self) -> None:
        return None


class Fake:
    """A tensor without elements."""

    def __init__(self, shape: tuple[Any, ...], kind: str = "float32", strides: tuple[int, ...] | None = None):
        self.shape, self.dtype, self.device = shape, dtype(kind), Device()
        own, step = [], 1
        for extent in reversed(shape):
            own.insert(0, step)
            step *= extent if isinstance(extent, int) else 1
        self._strides = tuple(strides or own)

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def dim(self) -> int:
        return len(self.shape)

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> Storage:
        return Storage(id(self))


@dataclass(eq=False)
class Node:
    """torch.fx.Node."""

    op: str
    name: str
    target: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    users: dict[Any, Any] = field(default_factory=dict)


class Op:
    """An OpOverload: its name and the names of its arguments."""

    def __init__(self, name: str, arguments: str):
        self.name, self._schema = (
            name,
            SimpleNamespace(
                arguments=[SimpleNamespace(name=a, type="Tensor" if a in TENSORS else "int") for a in arguments.split()]
            ),
        )

    def __str__(self) -> str:
        return f"aten.{self.name}"


class Graph:
    """A module in the making."""

    def __init__(self) -> None:
        self.graph = SimpleNamespace(nodes=[])

    def add(
        self, op: str, name: str, target: Any, args: tuple[Any, ...] = (), value: Any = None, **kwargs: Any
    ) -> Node:
        node = Node(op, name, target, args, kwargs, {"val": value})
        self.graph.nodes.append(node)
        flat = [one for arg in args for one in (arg if isinstance(arg, (list, tuple)) else [arg])]
        for source in (one for one in flat if isinstance(one, Node)):
            source.users[node] = None
        return node

    def input(self, name: str, value: Any) -> Node:
        return self.add("placeholder", name, name, value=value)

    def call(self, name: str, op: Op | Any, args: tuple[Any, ...], value: Any, **kwargs: Any) -> Node:
        return self.add("call_function", name, op, args, value, **kwargs)

    def output(self, *results: Any) -> None:
        self.add("output", "output", "output", (list(results),))


MM, ADD = Op("mm.default", "self mat2"), Op("add.Tensor", "self other")
RELU, SPLIT = Op("relu.default", "self"), Op("split.Tensor", "self split_size dim")
VIEW, CAT = Op("view.default", "self size"), Op("cat.default", "tensors dim")
SIZE, TO = Op("sym_size.int", "self dim"), Op("_to_copy.default", "self dtype")


def getitem(values: Any, place: int) -> Any:
    """operator.getitem."""
    return values[place]


def layers() -> Graph:
    """A product by a weight that is stored transposed, a split, sizes that are symbols, what is passed on."""
    s = SymInt("s0")
    g = Graph()
    x, w, b = g.input("x", Fake((s, 6))), g.input("w", Fake((6, 400), strides=(1, 6))), g.input("b", Fake((400,)))
    g.input("s0", s)
    h = g.call("mm", MM, (x, w), Fake((s, 400)))
    h = g.call("add", ADD, (h, b), Fake((s, 400)))
    parts = g.call("split", SPLIT, (h, 200, 1), [Fake((s, 200)), Fake((s, 200))])
    left = g.call("left", getitem, (parts, 0), Fake((s, 200)))
    right = g.call("right", getitem, (parts, 1), Fake((s, 200)))
    right = g.call("relu", RELU, (right,), Fake((s, 200)))
    both = g.call("cat", CAT, ([right, left], 1), Fake((s, 400)))
    n = g.call("sym_size", SIZE, (x, 0), s)
    seen = g.call("view", VIEW, (both, [n, 2, 200]), Fake((s, 2, 200)))
    narrow = g.call("to", TO, (seen,), Fake((s, 2, 200), "float16"), dtype=dtype("float16"))
    g.output(narrow, x, n, None, left, narrow)
    return g


def test_a_graph_is_compiled_and_gives_what_numpy_gives() -> None:
    piece = Piece(layers(), frozenset(["w", "b"]))
    assert (piece.inputs, piece.weights, piece.outputs) == (("x",), ("w", "b"), ("to", "split.0"))
    draw = np.random.default_rng(0)
    stored = draw.standard_normal((400, 6)).astype(np.float32)
    x, b = draw.standard_normal((5, 6)).astype(np.float32), draw.standard_normal(400).astype(np.float32)
    made = play(piece.module.region, {"x": x, "b": b, "w": stored})
    whole = x @ stored.T + b
    wanted = np.concatenate([np.maximum(whole[:, 200:], 0), whole[:, :200]], 1).reshape(5, 2, 200)
    np.testing.assert_allclose(made["to"], wanted.astype(np.float16), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(made["split.0"], whole[:, :200], rtol=1e-5, atol=1e-5)
    assert [(r.name, r.given, str(r.size)) for r in piece.results] == [
        ("to", -1, "None"),
        ("", 0, "None"),
        ("", -1, "s0"),
        ("", -1, "None"),
        ("split.0", -1, "None"),
        ("to", -1, "None"),
    ]
    assert piece.model.range_of("s0").low == 2


def test_weights_keep_the_order_of_their_memory() -> None:
    held = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    assert in_memory(held).tolist() == np.arange(24).reshape(2, 3, 4).tolist()


def test_sizes_come_from_shapes_and_numbers() -> None:
    g = Graph()
    g.input("x", Fake((SymInt("2*s1"), SymInt("s0"))))
    g.input("n", SymInt("s1"))
    nodes = [n for n in g.graph.nodes if n.op == "placeholder"]
    assert sizes_from(nodes, ("s1", "s0"))((Fake((14, 3)), 7)) == (7, 3)
    with pytest.raises(LookupError, match="s2"):
        sizes_from(nodes, ("s0", "s2"))


def test_a_complex_tensor_is_between_nodes_of_one_program() -> None:
    g = Graph()
    x = g.input("x", Fake((4, 2)))
    pairs, back = Op("view_as_complex.default", "self"), Op("view_as_real.default", "self")
    z = g.call("z", pairs, (x,), Fake((4,), "complex64"))
    w = g.call("w", MM, (z, z), Fake((4,), "complex64"))
    y = g.call("y", back, (z,), Fake((4, 2)))
    v = g.call("v", back, (w,), Fake((4, 2)))
    g.output(y, v)
    assert supported_of(g, {}).nodes == {"z", "w", "y", "v"}
    assert supported_of(g, {"y": "torch runs it"}).nodes == set()  # and so all that shares its tensor


def test_what_has_no_translation_is_named_with_its_reason() -> None:
    g = Graph()
    x = g.input("x", Fake((4, 4)))
    pair = g.call("eigh", Op("linalg_eigh.default", "A"), (x,), (Fake((4,)), Fake((4, 4))))
    first = g.call("first", getitem, (pair, 0), Fake((4,)))
    y = g.call("relu", RELU, (first,), Fake((4,)))
    z = g.call("to", TO, (y,), Fake((4,), "complex64"), dtype=dtype("complex64"))
    g.output(y, z)
    found = supported_of(g, {})
    assert found.nodes == {"relu"}
    assert found.others == [
        ("aten.linalg_eigh.default", "it has no translation"),
        ("aten._to_copy.default", "torch makes or reads a complex tensor of it"),
    ]
    assert [d.code for d in found.fault().diags] == ["E0143"]
    assert supported_of(g, {"relu": "it is tired"}).others[1] == ("aten.relu.default", "it is tired")


def test_strides_are_read_in_the_memory_of_the_whole() -> None:
    """Of a part that begins at 4: from where it begins, unless a place in memory is stated."""

    class Part(Fake):
        def __init__(self, shape: tuple[int, ...], memory: int, start: int = 0, size: int = 48):
            super().__init__(shape)
            self.memory, self.start, self.size, self.dtype.itemsize = memory, start, size, 4

        def storage_offset(self) -> int:
            return self.start

        def untyped_storage(self) -> Any:
            return SimpleNamespace(_cdata=self.memory, nbytes=lambda: self.size)

    g = Graph()
    calls: list[str] = []
    g.graph.eliminate_dead_code, g.recompile = lambda: calls.append("less"), lambda: calls.append("anew")
    strided = Op("as_strided.default", "self size stride storage_offset")
    x = g.input("x", Part((3, 4), 1))
    whole = g.call("whole", RELU, (x,), Part((3, 4), 2))
    part = g.call("part", Op("slice.Tensor", "self dim start"), (whole, 0, 1), Part((2, 4), 2, 4))
    y, z = (
        g.call(n, strided, (part, [2], [1], *more), Part((2,), 2, at)) for n, more, at in (("y", (), 4), ("z", (2,), 2))
    )
    own = g.call("own", strided, (whole, [2], [1]), Part((2,), 2))
    g.output(y, z, own)
    rebase(g)
    assert y.args == (whole, [2], [1], 4) and z.args == (whole, [2], [1], 2) and own.args == (whole, [2], [1])
    assert calls == ["less", "anew"]
    calls.clear()
    rebase(g)
    assert calls == []


def attention_on_a_card(read: int) -> Graph:
    """Attention as torch runs it on a GPU, beside the log-sum-exp with lengths and the state of a generator: of these
    results a graph reads the first, and the one of a number."""
    g = Graph()
    q, k, v = (g.input(n, Fake((1, 2, 8, 16), "float16")) for n in "qkv")
    kinds = [Fake((1, 2, 8)), None, None, 8, 8, Fake((2,), "uint64"), Fake((), "uint64"), Fake((0,), "float16")]
    flash = Op("_scaled_dot_product_flash_attention.default", "query key value dropout_p is_causal return_debug_mask")
    made = g.call("flash", flash, (q, k, v, 0.0, True, False), (Fake((1, 2, 8, 16), "float16"), *kinds))
    first = g.call("first", getitem, (made, 0), Fake((1, 2, 8, 16), "float16"))
    g.call("unread", getitem, (made, 6), kinds[5])
    other = g.call("other", getitem, (made, read), (made.meta["val"])[read])
    g.output(first, *([other] if read else []))
    if read:
        for taken in (first, other):
            taken.users[g.graph.nodes[-1]] = None
    else:
        first.users[g.graph.nodes[-1]] = None
    return g


def test_results_that_nobody_reads_may_be_what_no_program_gives() -> None:
    g = attention_on_a_card(read=0)
    assert supported_of(g, {}).others == []
    piece = Piece(g, frozenset())
    draw = np.random.default_rng(1)
    given = {n: draw.standard_normal((1, 2, 8, 16)).astype(np.float16) for n in "qkv"}
    (found,) = play(piece.module.region, given).values()
    q, k, v = (given[n].astype(np.float64) for n in "qkv")
    scores = np.where(np.tri(8, dtype=bool), q @ k.swapaxes(2, 3) / 4, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True) @ v, rtol=1e-2, atol=4e-3)


def test_results_that_are_read_must_be_what_a_program_gives() -> None:
    (fault,) = supported_of(attention_on_a_card(read=7), {}).others
    assert fault == ("aten._scaled_dot_product_flash_attention.default", "its dtype is uint64")


def test_plans_are_made_for_the_sizes_that_torch_traced_with() -> None:
    g = layers()
    s = g.graph.nodes[3].meta["val"]
    s.node.hint = 7
    stated = Piece(g, frozenset(["w", "b"])).model.shape_sets
    assert [dict(one.sizes) for one in stated] == [{"s0": 7}]
    s.node.hint = None  # a size that only the run knows
    assert [one.name for one in Piece(layers(), frozenset(["w", "b"])).model.shape_sets] == ["default"]


class SymBool:
    """A truth about sizes."""


def test_checks_of_sizes_need_no_program() -> None:
    """As torch writes them where a size may be anything."""
    s = SymInt("s0")
    g = Graph()
    x = g.input("x", Fake((s, 4)))
    n = g.call("n", SIZE, (x, 0), s)
    truth = g.call("ge", at_least, (n, 1), SymBool())
    g.call("check", Op("_assert_scalar.default", "self assert_msg"), (truth, "n >= 1"), None)
    g.output(g.call("relu", RELU, (x,), Fake((s, 4))))
    found = supported_of(g, {})
    assert (found.nodes, found.others) == ({"relu"}, [])
    made = Piece(g, frozenset())
    assert (made.inputs, made.outputs) == (("x",), ("relu",))


def at_least(a: Any, b: Any) -> Any:
    """operator.ge."""
    return a >= b


def test_a_size_that_no_shape_can_have_leaves_its_nodes_to_torch() -> None:
    g = Graph()
    x = g.input("x", Fake((SymInt("s0"), 4)))
    short = g.call("short", RELU, (x,), Fake((Odd("Min(512, s0)"), 4)))
    both = g.call("both", ADD, (x, short), x.meta["val"])
    g.output(g.call("all", RELU, (both,), x.meta["val"]))
    found = supported_of(g, {})
    reason = "one of its sizes is Min(512, s0)"
    assert found.nodes == {"all"} and found.others == [("aten.relu.default", reason), ("aten.add.Tensor", reason)]


class Odd(SymInt):
    """A size whose text is a call."""

    def __str__(self) -> str:
        return str(self.node.expr)


@pytest.mark.parametrize(("rows", "is_left"), [(8, False), (9, True), (SymInt("s0"), True)])
def test_products_of_many_rows_in_groups_are_left_to_torch(rows: Any, is_left: bool) -> None:
    g = Graph()
    x, w, ends = g.input("x", Fake((rows, 4))), g.input("w", Fake((8, 4, 6))), g.input("ends", Fake((8,), "int32"))
    op = Op("_grouped_mm.default", "self mat2 offs bias out_dtype")
    g.output(g.call("y", op, (x, w, ends), Fake((rows, 6))))
    found = better_by_torch(g)
    assert ([*found] == ["y"]) is is_left and (str(rows) in "".join(found.values())) is is_left
    assert [name for name, _ in supported_of(g, found).others] == ["aten._grouped_mm.default"] * is_left
    assert Piece(g, frozenset()).outputs == ("y",)  # a program could


def test_a_form_that_no_translation_takes_names_its_node() -> None:
    g = Graph()
    x = g.input("x", Fake((1, 2, 8, 8)))
    op = Op("upsample_bicubic2d.vec", "input output_size align_corners scale_factors")
    g.output(g.call("up", op, (x, None, False, [2.0, 2.0]), Fake((1, 2, 9, 16))))
    with pytest.raises(Refused) as fault:
        Piece(g, frozenset())
    assert {d.at for d in fault.value.diags} == {"up"}


def test_what_the_schema_has_no_word_for_is_said() -> None:
    g = Graph()
    x = g.input("x", Fake((4,)))
    odd = g.call("odd", RELU, (object(),), Fake((4,)))
    g.output(odd)
    with pytest.raises(Unsayable, match="object"):
        schema_of(g.graph, [odd], {}, {})
    g = Graph()
    made = g.add("call_module", "m", "m", (x,))
    with pytest.raises(Unsayable, match="call_module"):
        schema_of(g.graph, [made], {}, {})


def test_a_graph_that_passes_its_inputs_on_needs_no_program() -> None:
    g = Graph()
    x = g.input("x", Fake((4,)))
    g.output(x, None)
    assert called(Piece(g, frozenset()), Options())("it") == ("it", None)
