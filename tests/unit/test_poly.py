"""Blocks and edges: what takes a block, how isl names things, and dependences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tinyir import front
from tinyir.ir import poly, tiny
from tinyir.ir.sets import identifiers, read_map, read_set
from tinyir.kit import work
from tinyir.kit.diag import Refused
from tinyir.lower import index as to_index
from tinyir.lower import poly as to_poly

from ..models import mlp

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "gemm_bias_relu" / "gemm_bias_relu.poly"


def lowered(body: str) -> poly.Module:
    """The poly module of a tiny text without its header, checked and read back."""
    module = tiny.parse("tinyir 1.0 tiny\n\nmodel m\n" + body)
    assert [d for d in tiny.check(module) if d.is_error] == []
    made = to_poly.lower(to_index.lower(module))
    assert [d for d in poly.check(made) if d.is_error] == []
    text = poly.show(made)
    assert poly.parse(text) == made and poly.show(poly.parse(text)) == text
    return made


def test_every_kind_of_block() -> None:
    made = lowered(
        "  in x : fp32[M, N]\n  in t : i64[L]\n  in u : fp32[L, N]\n  out a : fp32[N, M]\n  out b : fp32[M, N]\n "
        " out c : fp32[L, N]\n  out d : fp32[M, N]\n"
        "  out e : fp32[M]\n  out f : fp32[M*N]\n  out g : fp32[M, N]\n  out h : i64[M]\n\n"
        "  %a = PERMUTE(x) {perm=[1, 0]} : fp32[N, M]\n  %b = SCAN(x) {op=SUM, axis=1, dtype=fp32} : fp32[M, N]\n"
        "  %c = GATHER(x, t) {axis=0} : fp32[L, N]\n"
        "  %d = SCATTER(x, t, u) {axis=0, op=SUM} : fp32[M, N]\n  %e = REDUCE(x) {op=MAX, axes=[1], dtype=fp32} "
        ": fp32[M]\n  %f = RESHAPE(x) : fp32[M*N]\n"
        "  %g = NEG(x) : fp32[M, N]\n  %h = IOTA() {axis=0} : i64[M]\n\noutputs: %a, %b, %c, %d, %e, %f, %g, %h\n"
    )
    kinds = {b.name: b.kind for b in made.blocks}
    assert kinds == {
        "a": "movement",
        "b": "scan",
        "c": "gather",
        "d": "scatter",
        "e": "reduction",
        "f": "opaque",
        "g": "elementwise",
        "h": "elementwise",
    }
    assert [(p.name, str(p.means)) for p in made.params] == [("M", "M"), ("N", "N"), ("L", "L"), ("M_N", "M*N")]
    assert made.block_of()["f"].domain == "{ f[i0] : 0 <= i0 < M_N }"
    assert made.block_of()["b"].reads[0].relation == "{ b[i0, i1, k0] -> x[i0, k0] : 0 <= i1 - k0 }"


def test_names_that_isl_does_not_read() -> None:
    assert identifiers(["a.b", "a_b", "1x", "a b", "max"]) == {
        "a.b": "a_b",
        "a_b": "a_b_2",
        "1x": "_1x",
        "a b": "a_b_3",
        "max": "max",
    }
    made = lowered(
        '  in floor : fp32[max, dim.0]\n  out "%y z" : fp32[max, dim.0]\n\n  %and = NEG(floor) : fp32[max, '
        'dim.0]\n\noutputs: "%y z"=%and\n'
    )
    assert [(p.name, str(p.means)) for p in made.params] == [("max_", "max"), ("dim_0", "dim.0")]
    assert not made.set_of(made.blocks[0].domain).is_empty()


def test_a_size_that_divides_by_a_symbol() -> None:
    """A window whose stride and dilation are symbols stays inside: d*floor(n/d) is at most n. It is a parameter, and
    not by a word of isl's own."""
    window = "%v = VIEW(x) {{index_map=[D*i1 + S*i0{}]}} : fp32[floor((H - D*K + D - 1)/S) + 1, K]\n\noutputs: %v\n"
    head = "  in x : fp32[H]\n  out v : fp32[floor((H - D*K + D - 1)/S) + 1, K]\n\n  "
    made = lowered(head + window.format(""))
    assert ("floor_", "floor((D + H - D*K - 1)/S)") in [(p.name, str(p.means)) for p in made.params]
    for beyond in (" + 1", " - 1"):
        with pytest.raises(Refused) as refused:
            lowered(head + window.format(beyond))
        assert [d.code for d in refused.value.diags] == ["E1207"]


def test_dead_values_and_leaves_take_no_block() -> None:
    made = lowered(
        "  in x : fp32[M]\n  out y : fp32[M]\n\n  %dead = NEG(x) : fp32[M]\n  %c = CONST() {value=2.0} : fp32[]\n"
        "  %e = EXPAND(%c) : fp32[M]\n  %y = MUL(x, %e) : fp32[M]\n\noutputs: %y\n"
    )
    assert [b.name for b in made.blocks] == ["y"] and made.edges == ()


def test_a_result_that_is_an_input_takes_no_block() -> None:
    assert lowered("  in x : fp32[M]\n  out y : fp32[M]\n\noutputs: y=x\n").blocks == ()


def test_a_state_is_overwritten_after_it_is_read() -> None:
    made = lowered(
        "  in s : fp32[M] {role=state, mutability=mutable}\n  in x : fp32[M]\n  out s : fp32[M]\n  out y : fp32[M]\n\n"
        "  %y = ADD(s, x) : fp32[M]\n  %n = NEG(x) : fp32[M]\n\noutputs: s=%n, %y\n"
    )
    (edge,) = made.edges
    assert (edge.source, edge.target, edge.kind) == ("y", "n", "anti")
    assert made.map_of(edge.relation).is_equal(made.map_of("{ y[i0] -> n[i0] : 0 <= i0 < M }"))


def test_dependences_of_the_sample() -> None:
    made = poly.parse(SAMPLE.read_text(encoding="utf-8"))
    assert poly.check(made) == []
    relation = made.map_of(next(e.relation for e in made.edges if e.target == "bias_add" and e.source == "gemm"))
    assert relation.is_equal(
        made.map_of("{ gemm[i0, i1, k0] -> bias_add[i0, i1] : 0 <= i0 < M and 0 <= i1 < N and 0 <= k0 < K }")
    )


@pytest.mark.parametrize(
    "right, wrong, code",
    [
        ("poly [M, K, N]", "poly [M, K, N, N]", "E1209"),
        ("poly [M, K, N]", "poly [M, K]", "E1209"),
        ("poly [M, K, N]", "poly [M, K, N, Q = P*P]", "E1209"),
        ("block relu : elementwise", "block relux : elementwise", "E1210"),
        ("read   bias {", "read   bus {", "E1210"),
        ("relu[i0, i1] -> bias_add[i0, i1] }", "relu[i0, i1] -> bias_add[i0, i1, 0] }", "E1211"),
        ("relu[i0, i1] -> bias_add[i0, i1] }", "relu[i0, i1] -> bias_add[i0, i7] }", None),
        ("relu[i0, i1] -> bias_add[i0, i1] }", "relu[i0, i1] -> bias_add[i0, i1] : and }", "E1211"),
        ("relu[i0, i1] -> bias_add[i0, i1] }", "relu[i0, i1]->bias_add[i0, i1] }", None),
        ("relu[i0, i1] -> bias_add[i0, i1] }", "relu[i0, i1] } -> bias_add[i0, i1] }", "E1211"),
        ("relu[i0, i1] -> bias_add[i0, i1] }", "relu[i0, i1] -> bias_add[i0, i1] } : {}", "E1211"),
        ("relu[i0, i1] -> bias_add[i0, i1] }", "relu[i0, i1] -> [bias_add[i0, i1] -> relu[i0, i1]] }", "E1211"),
        ("write  { C2[i0, i1] -> C2[i0, i1] }", "write  { [i0, i1] -> C2[i0, i1] }", "E1211"),
        ("write  { C2[i0, i1] -> C2[i0, i1] }", "write  { C2[i0, i1] -> [i0, i1] }", "E1211"),
        ("{ relu[i0, i1] -> C2[i0, i1] : 0", "{ [i0, i1] -> C2[i0, i1] : 0", "E1211"),
        ("sum [k0]", "sum []", "E1212"),
        ("edge relu -> C2", "edge gemm -> C2", "E1211"),
        (" : true { relu", " : odd { relu", "E1213"),
    ],
)
def test_what_is_refused(right: str, wrong: str, code: str | None) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert right in text
    said = [d.code for d in poly.check(poly.parse(text.replace(right, wrong, 1)))]
    assert said[:1] == ([code] if code else [])


def test_a_name_is_looked_at_in_each_of_many_relations_that_are_alike() -> None:
    names = ["x", "a", "ba", "c", "bc", "d", "e"]  # two end as another does
    steps = "\n".join(
        f"  %{name} = EXP2({'' if at == 0 else '%'}{names[at]}) : fp32[M]" for at, name in enumerate(names[1:])
    )
    shown = poly.show(lowered(f"  in  x : fp32[M]\n  out e : fp32[M]\n\n{steps}\n\noutputs: %e\n"))
    head, _, own = shown.partition("\npoly")
    places = [found.span(1) for found in re.finditer(r"(\w+)\[i0\]", own)]
    assert len(places) >= 4 * len(names[1:])
    for start, end in places:
        for name in names:
            if name != own[start:end]:
                wrong = f"{head}\npoly{own[:start]}{name}{own[end:]}"
                assert {d.code for d in poly.check(poly.parse(wrong))} & {"E1210", "E1211"}


def test_isl_reads_the_sets_of_layers_of_other_sizes_once() -> None:
    def read(layers: int) -> int:
        made = to_poly.lower(to_index.lower(front.read(mlp(layers).text)))
        read_set.cache_clear()
        read_map.cache_clear()
        before = work.counts.get("isl sets", 0)
        assert [d for d in poly.check(made) if d.is_error] == []
        return work.counts["isl sets"] - before

    assert read(12) == read(4) > 0  # each layer has another size
