"""The book of each op, as text; what is refused; and that a chain costs its net effect."""

from __future__ import annotations

import pytest

from tinyir.ir import index, tiny
from tinyir.kit.diag import Refused
from tinyir.lower.index import lower, remarks

from .effort import counted


def book(signature: str, *values: str) -> dict[str, list[str]]:
    """The book's lines by value, of a program given by its inputs and values; the last value is the result."""
    lines = [f"  {v}" for v in values]
    name, last = values[-1].split(" ")[0], values[-1].rpartition(" : ")[2]
    text = (
        "tinyir 1.0 tiny\n\nmodel m\n"
        + "".join(f"  in {t.strip()}\n" for t in signature.split(";"))
        + f"  out y : {last}\n\n"
        + "\n".join(lines)
        + f"\n\noutputs: y={name}\n"
    )
    module = tiny.parse(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    made = lower(module)
    assert [d for d in index.check(made) if d.is_error] == []
    shown = index.show(made).partition("\nbook\n")[2].splitlines()
    found: dict[str, list[str]] = {}
    for line in shown:
        if line.startswith("  %"):
            current = found.setdefault(line.split()[0], [" ".join(line.split())])
        else:
            current.append(" ".join(line.split()))
    return found


def test_gather_chooses_along_an_indirect_axis() -> None:
    assert book("x : fp32[V, C]; t : i64[A, B]", "%y = GATHER(x, t) {axis=0} : fp32[A, B, C]")["%y"] == [
        "%y [i0: A, i1: B, i2: C | k0: V indirect]",
        "reads x[k0, i2], t[i0, i1]",
    ]


def test_scatter_looks_at_every_update() -> None:
    assert book("x : fp32[V, C]; t : i64[L]; u : fp32[L, C]", "%y = SCATTER(x, t, u) {axis=0, op=SUM} : fp32[V, C]")[
        "%y"
    ] == [
        "%y [i0: V, i1: C | k0: L indirect]",
        "reads x[i0, i1], t[k0], u[k0, i1]",
    ]


@pytest.mark.parametrize(
    "attrs, where",
    [
        ("op=SUM, axis=1, dtype=fp32", "0 <= i1 - k0 else 0.0"),
        ("op=PROD, axis=1, dtype=fp32, exclusive=true", "1 <= i1 - k0 else 1.0"),
        ("op=MAX, axis=1, dtype=fp32, reverse=true", "0 <= k0 - i1 else -inf"),
    ],
)
def test_scan_needs_those_before(attrs: str, where: str) -> None:
    assert book("x : fp32[M, N]", f"%y = SCAN(x) {{{attrs}}} : fp32[M, N]")["%y"] == [
        "%y [i0: M, i1: N | k0: N]",
        f"reads x[i0, k0] where {where}",
    ]


def test_leaves_read_nothing() -> None:
    found = book(
        "x : i32[M, N]",
        "%a = IOTA() {axis=1} : i32[M, N]",
        "%c = CONST() {value=3} : i32[]",
        "%d = EXPAND(%c) : i32[M, N]",
        "%y = ADD(%a, %d) : i32[M, N]",
    )
    assert found["%a"] == ["%a [i0: M, i1: N]"] and found["%c"] == ["%c []"]
    assert found["%y"][2] == "from %a[i0, i1], %c[]"


def test_reduce_names_its_axes_in_the_order_they_had() -> None:
    text = book("x : fp32[A, B, C, D]", "%y = REDUCE(x) {op=SUM, axes=[3, 1], dtype=fp32} : fp32[A, C]")["%y"]
    assert text == ["%y [i0: A, i1: C | k0: B, k1: D]", "reads x[i0, k0, i1, k1]"]


@pytest.mark.parametrize(
    "shape, result, read",
    [
        ("M, 1, K", "M, K", "x[i0, 0, i1]"),
        ("M, K", "1, M, 1, K", "x[i1, i3]"),
        ("M, 12", "M, 3, 4", "x[i0, 4*i1 + i2]"),
        ("M, 3, 4", "M, 12", "x[i0, floor(i1/4), i1 - 4*floor(i1/4)]"),
        ("M, 6", "2*M, 3", "x[floor(i0/2), 3*i0 + i1 - 6*floor(i0/2)]"),
        ("4*M, N", "M, 4, N", "x[4*i0 + i1, i2]"),
        ("6, 4", "8, 3", "x[floor((3*i0 + i1)/4), 3*i0 + i1 - 4*floor((3*i0 + i1)/4)]"),
        ("M + 1, 2*N", "M + 1, N, 2", "x[i0, 2*i1 + i2]"),
        ("M*N, 3", "3*M*N", "x[floor(i0/3), i0 - 3*floor(i0/3)]"),
        ("0, M", "0, 5", "x[0, 0]"),
        ("1, 1", "", "x[0, 0]"),
    ],
)
def test_reshape(shape: str, result: str, read: str) -> None:
    assert (
        book(
            f"x : fp32[{shape}]" + ("; w : fp32[M, N]" if "M" in shape + result else ""),
            f"%y = RESHAPE(x) : fp32[{result}]",
        )["%y"][1]
        == f"reads {read}"
    )


def test_a_reshape_across_symbols_is_marked_with_its_exact_map() -> None:
    found = book("x : fp32[M, N]", "%f = RESHAPE(x) : fp32[M*N]", "%y = NEG(%f) : fp32[M*N]")
    assert found["%f"] == ["%f [i0: M*N] non_scop", "reads x[floor(i0/N), i0 - N*floor(i0/N)]"]
    assert found["%y"] == ["%y [i0: M*N]", "reads %f[i0]"]


def test_what_is_flattened_and_split_again_leaves_nothing() -> None:
    found = book(
        "x : fp32[B, S, H, 64]",
        "%f = RESHAPE(x) : fp32[B*S, 64*H]",
        "%g = RESHAPE(%f) : fp32[B, S, H, 64]",
        "%y = PERMUTE(%g) {perm=[0, 2, 1, 3]} : fp32[B, H, S, 64]",
    )
    assert "non_scop" in found["%f"][0] and "non_scop" not in found["%g"][0]
    assert found["%y"][-1] == "from x[i0, i2, i1, i3]"


def test_a_pad_undone_leaves_no_guard() -> None:
    found = book(
        "x : fp32[M]", "%p = PAD(x) {pad=[[2, 3]]} : fp32[M + 5]", "%y = SHRINK(%p) {lo=[2], hi=[M + 2]} : fp32[M]"
    )
    assert found["%y"][-1] == "from x[i0]"


def test_pads_of_one_value_are_one_piece_and_of_two_are_two() -> None:
    same = book("x : fp32[M]", "%p = PAD(x) {pad=[[1, 1]]} : fp32[M + 2]", "%y = PAD(%p) {pad=[[2, 0]]} : fp32[M + 4]")
    assert same["%y"][-1] == "from x[i0 - 3] where 0 <= i0 - 3 < M else 0.0"
    other = book(
        "x : fp32[M]",
        "%p = PAD(x) {pad=[[1, 1]], value=1.0} : fp32[M + 2]",
        "%y = PAD(%p) {pad=[[2, 0]]} : fp32[M + 4]",
    )
    assert other["%y"][-1] == "from x[i0 - 3] where 0 <= i0 - 3 < M else 1.0 where 0 <= i0 - 2 else 0.0"


def test_a_padded_axis_split_and_merged_keeps_its_guard() -> None:
    """Case A1 of the reports: the guard goes through split and merge."""
    found = book(
        "x : i32[2, 5, 5]",
        "%p = PAD(x) {pad=[[2, 0], [0, 0], [0, 0]]} : i32[4, 5, 5]",
        "%s = RESHAPE(%p) : i32[2, 2, 5, 5]",
        "%y = RESHAPE(%s) : i32[4, 5, 5]",
    )
    assert found["%s"][-1] == "from x[2*i0 + i1 - 2, i2, i3] where 0 <= 2*i0 + i1 - 2 else 0"
    assert (
        found["%y"][-1] == found["%p"][-1].replace("reads", "from") == "from x[i0 - 2, i1, i2] where 0 <= i0 - 2 else 0"
    )


def test_a_view_by_a_rounded_down_quotient() -> None:
    """Case A8: floors round down, below zero too."""
    module = tiny.parse(
        "tinyir 1.0 tiny\n\nmodel m\n  in x : i32[5]\n  out y : i32[8]\n\n  %y = VIEW(x) {index_map=[floor((i0 - "
        "3)/2) + 2]} : i32[8]\n\noutputs: %y\n"
    )
    (entry,) = lower(module).entries
    assert [entry.reads[0].at({"i0": i})[1][0] for i in range(8)] == [0, 1, 1, 2, 2, 3, 3, 4]


def movements(count: int) -> tiny.Module:
    """Four times `count` flips and permutes, one reading the other, that come back to where they were."""
    steps = [
        "FLIP(%s) {axes=[0]} : fp32[M, 8]",
        "PERMUTE(%s) {perm=[1, 0]} : fp32[8, M]",
        "FLIP(%s) {axes=[1]} : fp32[8, M]",
        "PERMUTE(%s) {perm=[1, 0]} : fp32[M, 8]",
    ]
    last, lines = "x", []
    for n in range(4 * count):
        lines.append(f"  %v{n} = {steps[n % 4].replace('%s', last)}")
        last = f"%v{n}"
    return tiny.parse(
        "tinyir 1.0 tiny\n\nmodel m\n  in x : fp32[M, 8]\n  out y : fp32[M, 8]\n\n"
        + "\n".join(lines)
        + f"\n\noutputs: y={last}\n"
    )


def test_a_thousand_movements_cost_their_net_effect() -> None:
    """Both in work and in text."""
    counted(lower, movements(25))  # what is kept between calls is there now
    (few, _), (many, made) = counted(lower, movements(25)), counted(lower, movements(250))
    assert many < 10.2 * few
    (source,) = made.entries[-1].sources
    assert index.show_access(source, None, ()) == "x[i0, i1]"


def refused(text: str) -> list[str]:
    """The codes with which a tiny text is refused on its way to a book."""
    with pytest.raises(Refused) as fault:
        lower(tiny.parse("tinyir 1.0 tiny\n\nmodel m\n" + text))
    return [d.code for d in fault.value.diags]


def test_what_cannot_have_a_book_is_refused() -> None:
    assert refused("  in x : fp32[k0]\n  out y : fp32[k0]\n\n  %y = NEG(x) : fp32[k0]\n\noutputs: %y\n") == ["E1208"]
    assert refused(
        "  in x : fp32[M]\n  out y : fp32[M]\n\n  %a = RESHAPE(x) : fp32[P]\n  %y = RESHAPE(%a) : fp32[M]\n\n"
        "outputs: %y\n"
    ) == ["E1304"]
    assert refused(
        "  in x : fp32[M]\n  in w : fp32[N]\n  out y : fp32[N]\n\n  %y = SHRINK(x) {lo=[0], hi=[N]} : fp32[N]\n\n"
        "outputs: %y\n"
    ) == ["E1207"]


def test_a_range_of_a_symbol_can_prove_a_read_inside() -> None:
    text = (
        "tinyir 1.0 tiny\n\nmodel m\n  in x : fp32[M]\n  out y : fp32[4]\n{}\n  %y = SHRINK(x) {{lo=[0], hi=[4]}} : "
        "fp32[4]\n\noutputs: %y\n"
    )
    with pytest.raises(Refused):
        lower(tiny.parse(text.format("")))
    assert lower(tiny.parse(text.format("  sym M in 4..64\n"))).entries


def test_a_remainder_in_a_map_is_named() -> None:
    text = (
        "tinyir 1.0 index\n\nmodel m\n  in x : fp32[4]\n  out y : fp32[8]\n\n  %y = VIEW(x) {index_map=[i0]} : "
        "fp32[8]\n\noutputs: %y\n\nbook\n  %y [i0: 8]\n    reads x[i0 % 4]\n"
    )
    with pytest.raises(Refused) as fault:
        index.parse(text)
    assert [(d.code, str(d.span)) for d in fault.value.diags] == [("E1203", "13:16")]


def test_remarks_say_which_index_is_not_affine() -> None:
    module = tiny.parse(
        "tinyir 1.0 tiny\n\nmodel m\n  in x : fp32[M, N]\n  out y : fp32[M*N]\n\n  %y = RESHAPE(x) : fp32[M*N]\n"
        "\noutputs: %y\n"
    )
    assert [(d.code, str(d.facts["expr"])) for d in remarks(lower(module))] == [("R3201", "floor(i0/N)")]


PADDED = (
    "tinyir 1.0 index\n\nmodel m\n  in  x           : fp32[M]\n  out y           : fp32[M + 1]\n\n"
    "  %y             = PAD(x) {{pad=[[1, 0]]}} : fp32[M + 1]\n\noutputs: %y\n\n"
    "book\n  %y             [i0: M + 1]\n    reads x[i0 - 1] where 0 <= i0 - 1 < M else {}\n"
)


@pytest.mark.parametrize("word", ["0.0", "1", "-1.5", "inf", "-inf", "nan", "-nan"])
def test_a_number_is_read_in_the_place_of_an_element(word: str) -> None:
    (entry,) = index.parse(PADDED.format(word)).entries
    assert repr(float(entry.reads[0].at({"i0": 0, "M": 1}))) == repr(float(word))


@pytest.mark.parametrize("word", ["k1", "Inf", "infinity", "NaN", "-true", "-k1"])
def test_another_word_is_no_number(word: str) -> None:
    with pytest.raises(Refused) as refused:
        index.parse(PADDED.format(word))
    assert [(d.code, d.facts["found"]) for d in refused.value.diags] == [("E0002", word.lstrip("-"))]
