"""Names, origins and attributes hold any characters: no string ends a line, a comment or a message, and every text
reads back."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir import front
from tinyir.front import graphdsl
from tinyir.front.to_dsl import dsl_of
from tinyir.ir import manifest, tiny
from tinyir.ir.pipeline import STAGES
from tinyir.kit.diag import Diag, Refused
from tinyir.kit.quote import json_line, quoted, unquoted, visible
from tinyir.kit.render import as_json, draw
from tinyir.lower import language_of, lower_to

HOSTILE = (
    "\n",
    "\r",
    "\r\n",
    "\x85",
    "\u2028",
    "\u2029",
    "\x0b",
    "\x0c",
    "\x00",
    "\x1b[2J",
    "\x7f",
    "\u202e",
    "\ufeff",
    "\\",
    "\\\n",
    "??/",
    '"',
    "'",
    "*/",
    "/*",
    "//",
    "#",
    "%",
    "{",
    "}",
    "[]",
    ",",
    " ",
    "\t",
    ":",
    "=",
    '\nextern "C" int creat(const char*,int);//',
    "\nint q;",
    '";}\n',
    "\\u000a",
    "\U0001f600",
    "\u65e5\u672c",
    "(x);",
    "\nwait_previous();",
)
ANY = "".join(HOSTILE)


def model(word: str) -> str:
    """Front-end JSON with `word` in every string that it may have: two kernels, a weight in a file, a buffer between
    them."""
    x, w, t, u, y = (f"{n}{word}" for n in ("x", "w", "t", "u", "y"))
    tensors = {
        x: {"dtype": "fp32", "shape": [8, "N"]},
        w: {"dtype": "fp32", "shape": [8], "file": f"f{word}.bin", "key": f"k{word}", "offset": 0, "bytes": 32},
        y: {"dtype": "fp32", "shape": [8, "N"]},
    }
    graph = [
        {"op": "Softmax", "attrs": {"axis": 1}, "name": f"s{word}", "inputs": [x], "outputs": [t]},
        {"op": "Softmax", "attrs": {"axis": 0}, "name": f"r{word}", "inputs": [t], "outputs": [u]},
        {"op": "Reshape", "name": f"v{word}", "attrs": {"shape": [8, 1]}, "inputs": [w], "outputs": [f"c{word}"]},
        {"op": "Elementwise", "fn": "mul", "name": f"m{word}", "inputs": [u, f"c{word}"], "outputs": [y]},
    ]
    signature = {"inputs": [{"tensor": x}], "outputs": [{"tensor": y}]}
    return json.dumps(
        {
            "name": f"g{word}",
            "signature": signature,
            "tensors": tensors,
            "graph": graph,
            "shape_sets": {f"d{word}": {"N": 16}},
        }
    )


def chain(text: str) -> dict[str, str]:
    """The text of every stage; each reads back, to the byte and to the module."""
    module = front.read(text)
    texts = {}
    for stage in STAGES:
        module = lower_to(stage, module, "sm90") if stage != "tiny" else module
        language = language_of(stage)
        texts[stage] = language.show(module)
        assert [d for d in language.check(module) if d.is_error] == []
        back = language.parse(texts[stage])
        assert back == module and language.show(back) == texts[stage]
    return texts


def code_lines(cuda: str) -> list[str]:
    """The lines of a .cu as a compiler sees them, comments taken out: a backslash joins the next line, line breaks of
    any kind part them."""
    joined = re.sub(r"(?:\\|\?\?/)[ \t]*(\r\n|[\n\r])", "", cuda)
    return [
        line
        for line in (re.sub(r"//.*", "", part).rstrip() for part in re.split(r"[\n\r\x0b\x0c\x85\u2028\u2029]", joined))
        if line
    ]


def plain(word: str) -> str:
    """A harmless word that becomes the same identifier."""
    return re.sub(r"[^A-Za-z0-9]+", " ", word)


def holds(word: str) -> None:
    texts, harmless = chain(model(word)), chain(model(plain(word)))
    assert code_lines(texts["cu"]) == code_lines(harmless["cu"])
    for stage, text in texts.items():
        assert all(part.isprintable() for part in text.split("\n"))
        assert len(text.split("\n")) == len(harmless[stage].split("\n"))
    module = tiny.parse(texts["tiny"])
    assert tiny.show(graphdsl.read(dsl_of(module))) == texts["tiny"]


WORDS = (
    "".join(HOSTILE[:9]),
    "".join(HOSTILE[9:16]),
    "".join(HOSTILE[16:31]),
    *HOSTILE[31:33],
    "\u000a\U0001f600\u65e5(x);",
    "\nwait_previous();",
    "\\",
)  # short: long names of buffers end in a hash


@pytest.mark.parametrize("word", WORDS, ids=ascii)
def test_no_string_of_a_model_reaches_the_code(word: str) -> None:
    holds(word)


@settings(max_examples=6)
@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=3)), min_size=1, max_size=3).map("".join))
def test_no_random_string_of_a_model_reaches_the_code(word: str) -> None:
    try:
        word.encode()
    except UnicodeEncodeError:
        with pytest.raises(Refused, match="surrogate"):
            front.read(model(word))
    else:
        holds(word)


@pytest.mark.parametrize("sample", ["softmax", "conv3x3_silu"])
def test_the_names_inside_a_kernel_reach_no_code(sample: str) -> None:
    """Arrays and values of gpu text, which no front end names."""
    from tests.golden.cases import SAMPLES

    text = (SAMPLES / sample / f"{sample}.gpu").read_text(encoding="utf-8")
    head, kernels = text[: text.index("\nkernel ")], text[text.index("\nkernel ") :]
    names = {
        m
        for m in re.findall(r"^ +(?:reg|shared) ([\w.]+) :", kernels, re.M)
        if re.search(rf"(?<![\w.%]){re.escape(m)}(?![\w.])", kernels)
    }
    names = {
        n for n in names if not re.search(rf"(\+=|row_reduce \w+|warp_reduce \w+|of|via|<-) {re.escape(n)}\b", kernels)
    }  # where the grammar has bare names alone
    assert names
    texts = []
    for word in (ANY + "z", plain(ANY + "z")):
        renamed = kernels
        for name in names:
            renamed = re.sub(rf"(?<![\w.%]){re.escape(name)}(?![\w.])", lambda _: quoted(name + word), renamed)
        module = language_of("gpu").parse(head + renamed)
        assert language_of("gpu").show(language_of("gpu").parse(language_of("gpu").show(module))) == language_of(
            "gpu"
        ).show(module)
        texts.append(manifest.show(lower_to("cu", module, "sm90")))
    assert code_lines(texts[0]) == code_lines(texts[1])
    assert all(part.isprintable() for part in texts[0].split("\n"))


@given(st.text())
def test_a_quoted_string_reads_back(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable() and json.loads(shown) == text and visible(text).isprintable()
    if any("\ud800" <= c <= "\udfff" for c in text):
        with pytest.raises(ValueError, match="surrogate"):
            unquoted(shown)
    else:
        assert unquoted(shown) == text and unquoted('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"') == text
    assert json_line({text: [text]}).isprintable() and json.loads(json_line({text: [text]})) == {text: [text]}


@pytest.mark.parametrize("form", ["plain", "rich", "json"])
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_a_message_is_as_many_lines_whatever_it_speaks_of(form: str, lang: str, capsys: pytest.CaptureFixture) -> None:
    counts = []
    for word in ("word", ANY):
        diag = Diag("E0105", f"op {word}", {"op": word, "near": [word, word]})
        draw([diag], "", f"file {word}", form, lang)
        said = capsys.readouterr().err
        parts = said.removesuffix("\n").split("\n")
        counts.append(len(parts))
        assert all(re.sub(r"\x1b\[[\d;]*m", "", part).isprintable() for part in parts)
    assert counts[0] == counts[1]
    assert as_json(diag, lang)["at"] == f"op {ANY}", "tools get the name itself"


@pytest.mark.parametrize(
    "text, code",
    [('"\\x"', "E0015"), ('"\\ud800"', "E0015"), ('"\\u00"', "E0015"), ('"a\tb"', None), ('"\x85\u2028"', None)],
)
def test_a_string_of_a_text_is_json_and_may_hold_controls(text: str, code: str | None) -> None:
    source = (
        f"tinyir 1.0 tiny\n\nmodel {text}\n  in  X           : fp32[M]\n  out Y           : fp32[M] {{file={text}}}\n"
        f"\n  %y              = RELU(X) : fp32[M]\n\noutputs: Y = %y\n"
    )
    if code is None:
        assert tiny.parse(tiny.show(tiny.parse(source))) == tiny.parse(source)
        return
    with pytest.raises(Refused) as fault:
        tiny.parse(source)
    (diag,) = fault.value.diags
    assert diag.code == code and source[diag.span.start : diag.span.end] == text


@pytest.mark.parametrize("size", ["M\u00e9", "M\u00b2", "2*\u03b1", "\u0663"])
def test_a_symbol_is_of_ascii(size: str) -> None:
    """isl and C have no other names for integers."""
    source = (
        f"tinyir 1.0 tiny\n\nmodel main\n  in  X           : fp32[{size}]\n  out Y           : fp32[{size}]\n\n  %y  "
        f"            = RELU(X) : fp32[{size}]\n\noutputs: Y = %y\n"
    )
    with pytest.raises(Refused, match="E0002"):
        tiny.parse(source)
