"""What comes from outside and means harm, or asks for more than a machine has: a code and a place, at once; never a
trace, a wait or a crash."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import sandbox
from tests.golden.cases import ROOT, SAMPLES
from tinyir.ir import tiny
from tinyir.kit.diag import Refused
from tinyir.runtime.arrays import read_arrays
from tinyir.runtime.weights import read_weights

CASES = ROOT / "tests" / "cases"


def run(command: str, *arguments: str, text: bytes | str = b"", folder: Path | None = None) -> sandbox.Ending:
    """The command in a child of its own, within 2 GB and 30 s of CPU: three times what is asked for, since machines
    differ."""
    raw = text.encode() if isinstance(text, str) else text
    return sandbox.run(command, ("--diag=json", *arguments), raw, 30, str(folder) if folder else None)


def codes(ending: sandbox.Ending) -> list[str]:
    assert ending.code == 1, (ending.code, ending.said)
    return [d["code"] for d in json.loads(ending.said)["diagnostics"] if d["code"].startswith("E")]


# --- names in the CUDA


@pytest.mark.parametrize(
    "case, file",
    [
        ("comment-backslash", "m.json"),
        ("comment-newline-loop", "m.json"),
        ("comment-newline-region", "r.region"),
        ("name-u2028", "m.json"),
    ],
)
def test_a_name_stays_in_its_comment(case: str, file: str) -> None:
    made = run("tinyc", str(CASES / case / file))
    assert made.code == 0
    cuda = made.printed.decode()
    assert not re.search(r'^(extern "C" int creat|int q)|\\$', cuda, re.M) and "\u2028" not in cuda
    assert "#pragma unroll" in cuda
    assert run("tiny-check", text=cuda).code == 0


# --- streams


def shell(line: str, **environment: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", **environment}
    return subprocess.run(["bash", "-c", line], capture_output=True, cwd=ROOT, env=env, timeout=300)


CUMSUM = "samples/cumsum/cumsum.json"


@pytest.mark.parametrize(
    "line, code, said",
    [
        (f"tiny-front {CUMSUM} > /dev/full", 1, b"E0009"),
        (f"tiny-front {CUMSUM} -o /dev/full", 1, b"E0009"),
        (f"tiny-front {CUMSUM} -o .", 1, b"E0009"),
        (f"tiny-front {CUMSUM} >&-", 1, b"E0009"),
        ("tiny-front <&-", 1, b"E0008"),
        (f"tiny-front {CUMSUM} 2>&- | tail -1", 0, b""),
        ("tiny-front nothing.json 2>&-", 1, b""),
        ("tiny-front nothing.json 2> /dev/full", 1, b""),
        ("tiny-front --help > /dev/full", 1, b"standard output cannot be written"),
        ("tiny-front --no-such-option 2> /dev/full", 2, b""),
        ("tiny-front /dev/zero", 1, b"E0006"),
    ],
)
def test_a_stream_may_be_full_or_closed(line: str, code: int, said: bytes) -> None:
    done = shell(line)
    assert (
        done.returncode == code
        and said in done.stderr
        and b"Traceback" not in done.stderr
        and b"Exception" not in done.stderr
    )


def test_the_locale_does_not_decide_what_a_text_may_hold() -> None:
    wanted = shell("tiny-front tests/cases/name-u2028/m.json").stdout
    assert b"z" in wanted
    for environment in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = shell("tiny-front tests/cases/name-u2028/m.json", **environment)
        assert (done.returncode, done.stdout) == (0, wanted)


# --- files that a model names


def weighted(file: str, offset: int = 0, size: int = 32, shape: str = "8", more: str = "") -> str:
    return (
        f"tinyir 1.0 tiny\n\nmodel main\n  in  X           : fp32[8]\n  in  W           : fp32[{shape}] "
        f"{{file={json.dumps(file)}, offset={offset}, bytes={size}{more}}}\n"
        "  out Y           : fp32[8]\n\n  %a              = ADD(X, X) : fp32[8]\n\noutputs: Y = %a\n"
    )


def npz(name: str, header: str, member: bytes, **extra: Any) -> bytes:
    """An archive with one .npy member, its header as stated."""
    text = header.encode() + b"\n"
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + member)
    return raw.getvalue()


def bomb(size: int) -> bytes:
    """An archive of zeros, a thousandth of what they are unpacked, whose header is honest."""
    raw = io.BytesIO()
    with (
        zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("W.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (size // 4,)})
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return raw.getvalue()


FLOATS = np.arange(8, dtype=np.float32)
HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,)}"
FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "fifo": (lambda d: os.mkfifo(d / "w.bin"), weighted("w.bin")),
    "device": (lambda d: (d / "w.bin").symlink_to("/dev/zero"), weighted("w.bin")),
    "folder": (lambda d: (d / "w.bin").mkdir(), weighted("w.bin")),
    "none": (lambda d: None, weighted("w.bin")),
    "no name": (lambda d: None, weighted("")),
    "NUL": (lambda d: None, weighted("a\0b.bin")),
    "long name": (lambda d: None, weighted("w" * 5000)),
    "absolute": (lambda d: None, weighted("/etc/hostname")),
    "parent": (lambda d: (d.parent / "w.bin").write_bytes(FLOATS.tobytes()), weighted("../w.bin")),
    "link out": (
        lambda d: ((d.parent / "w.bin").write_bytes(FLOATS.tobytes()), (d / "w.bin").symlink_to(d.parent / "w.bin")),
        weighted("w.bin"),
    ),
    "folder link out": (
        lambda d: ((d.parent / "w.bin").write_bytes(FLOATS.tobytes()), (d / "in").symlink_to(d.parent)),
        weighted("in/w.bin"),
    ),
    "circle": (lambda d: (d / "w.bin").symlink_to("w.bin"), weighted("w.bin")),
    "short": (lambda d: (d / "w.bin").write_bytes(bytes(31)), weighted("w.bin")),
    "far": (lambda d: (d / "w.bin").write_bytes(bytes(32)), weighted("w.bin", offset=(1 << 63) - 16)),
    "beyond 64 bits": (lambda d: (d / "w.bin").write_bytes(bytes(32)), weighted("w.bin", offset=1 << 70)),
    "size of 2^64": (
        lambda d: (d / "w.bin").write_bytes(bytes(32)),
        weighted("w.bin", size=0, shape="4294967296, 4294967296, 4"),
    ),
    "larger than memory": (
        lambda d: (d / "w.bin").write_bytes(bytes(32)),
        weighted("w.bin", size=1 << 50, shape=str(1 << 48)),
    ),
    "changed": (lambda d: (d / "w.bin").write_bytes(bytes(32)), weighted("w.bin", more=', sha256="00"')),
    "npz fifo": (lambda d: os.mkfifo(d / "w.npz"), weighted("w.npz")),
    "npz bomb": (lambda d: (d / "w.npz").write_bytes(bomb(64 << 20)), weighted("w.npz")),
    "npz header lies": (
        lambda d: (d / "w.npz").write_bytes(npz("W", HEADER % "8", bytes(16 << 20))),
        weighted("w.npz"),
    ),
    "npz header overflows": (
        lambda d: (d / "w.npz").write_bytes(npz("W", HEADER % f"{1 << 62}, 4", bytes(32))),
        weighted("w.npz"),
    ),
    "npz header is code": (
        lambda d: (d / "w.npz").write_bytes(npz("W", "__import__('os').getcwd()", bytes(32))),
        weighted("w.npz"),
    ),
    "npz of objects": (
        lambda d: (d / "w.npz").write_bytes(
            npz("W", "{'descr': '|O', 'fortran_order': False, 'shape': (8,)}", bytes(64))
        ),
        weighted("w.npz"),
    ),
    "npz of another shape": (lambda d: np.savez(d / "w.npz", W=np.zeros(9, np.float32)), weighted("w.npz")),
    "npz without it": (lambda d: np.savez(d / "w.npz", V=FLOATS), weighted("w.npz")),
    "npz no zip": (lambda d: (d / "w.npz").write_bytes(b"PK\x03\x04" + bytes(60)), weighted("w.npz")),
    "safetensors nested": (
        lambda d: (d / "w.safetensors").write_bytes((5000).to_bytes(8, "little") + b"[" * 5000),
        weighted("w.safetensors"),
    ),
    "safetensors header beyond the end": (
        lambda d: (d / "w.safetensors").write_bytes(b"\xff" * 8 + b"{}"),
        weighted("w.safetensors"),
    ),
    "safetensors of another size": (
        lambda d: (d / "w.safetensors").write_bytes(
            (63).to_bytes(8, "little") + b'{"W":{"dtype":"F32","shape":[8],"data_offsets":[0,1073741824]}}'.ljust(63)
        ),
        weighted("w.safetensors"),
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_must_not_be_read_is_not(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    make, text = FILES[kind]
    make(folder)
    (folder / "m.tiny").write_text(text, encoding="utf-8")
    ending = run("tiny-play", "--random=1", str(folder / "m.tiny"))
    assert codes(ending) == ["E0006" if kind == "size of 2^64" else "E1741"], ending.said
    assert ending.seconds < 20


def test_a_file_inside_the_folder_is_read_also_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "w.bin").write_bytes(FLOATS.tobytes())
    (tmp_path / "w.bin").symlink_to("deep/w.bin")
    np.savez_compressed(tmp_path / "w.npz", W=FLOATS)
    for file in ("w.bin", "deep/w.bin", "w.npz"):
        model = tiny.parse(weighted(file)).model
        np.testing.assert_array_equal(read_weights(model, tmp_path)["W"], FLOATS)


def test_the_cases_of_weights() -> None:
    assert codes(run("tiny-play", "--random=1", str(CASES / "weights-nul" / "m.tiny"))) == ["E1741"]


def test_the_case_of_a_pipe_for_weights(tmp_path: Path) -> None:
    shutil.copy(CASES / "weights-fifo" / "m.tiny", tmp_path)
    os.mkfifo(tmp_path / "fifo.bin")
    assert codes(run("tiny-play", "--random=1", "m.tiny", folder=tmp_path)) == ["E1741"]


def test_an_archive_that_unpacks_to_far_more_is_refused_as_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinyir.runtime import arrays

    (tmp_path / "a.npz").write_bytes(bomb(8 << 20))
    assert read_arrays([str(tmp_path / "a.npz")])["W"].nbytes == 8 << 20  # small, if packed well
    monkeypatch.setattr(arrays, "MOST_UNPACKED", 1 << 20)
    with pytest.raises(Refused, match="E1710.*would unpack to") as fault:
        read_arrays([str(tmp_path / "a.npz")])
    assert [d.code for d in fault.value.diags] == ["E1710"]


@pytest.mark.parametrize("folder", [None, CASES / "external-shape"])
def test_sizes_in_a_file_beside_an_onnx_model(folder: Path | None) -> None:
    pytest.importorskip("onnx")
    ending = run("tiny-import", str(CASES / "external-shape" / "m.onnx"), folder=folder)
    assert ending.code == 0 and '"shape": [2, 4]' in ending.printed.decode()


def test_sizes_outside_the_folder_of_an_onnx_model(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    assert codes(run("tiny-import", str(CASES / "external-shape-outside" / "m.onnx"))) == ["E0127"]
    shutil.copy(CASES / "external-shape" / "m.onnx", tmp_path)
    for make in (
        lambda p: None,
        os.mkfifo,
        lambda p: p.symlink_to(CASES / "external-shape" / "shape.bin"),
        lambda p: p.write_bytes(bytes(15)),
    ):
        make(tmp_path / "shape.bin")
        assert codes(run("tiny-import", str(tmp_path / "m.onnx"))) == ["E0127"]
        (tmp_path / "shape.bin").unlink(missing_ok=True)


# --- bounds


def tiny_text(given: str, *values: str) -> str:
    return "\n".join(
        [
            "tinyir 1.0 tiny\n\nmodel main",
            f"  in  X           : fp32[{given}]",
            "  out Y           : fp32[N]\n",
            *values,
            "\noutputs: Y = X",
            "",
        ]
    )


def shaped(given: str) -> str:
    return json.dumps(
        {
            "signature": {"inputs": [{"tensor": "A"}], "outputs": [{"tensor": "B"}]},
            "tensors": {t: {"dtype": "fp32", "shape": [given]} for t in "AB"},
            "graph": [{"op": "Elementwise", "fn": "relu", "inputs": ["A"], "outputs": ["B"]}],
        }
    )


MANY = [f"S{i}" for i in range(60)]
POWER = "*".join(["(A+B+C+D+E)"] * 14)
PLUS = "1" + "+1" * 2_000_000
DIGITS = "9" * 6000
REFUSED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "digits of a size": (("tiny-check",), tiny_text(DIGITS), "E0006"),
    "digits in JSON": (("tiny-front",), shaped(DIGITS), "E0111"),
    "digits as a JSON number": (("tiny-front",), shaped("M").replace('["M"]', f"[{DIGITS}]"), "E0013"),
    "digits in the DSL": (("tiny-front",), f"graph main(x: f32[{DIGITS}]) -> (y: f32[1]) {{ return x }}", "E0006"),
    "digits of a version": (("tiny-check",), tiny_text("N").replace("1.0", DIGITS + ".0"), "E0003"),
    "digits of a Core IR value": (
        ("tiny-front",),
        f'%0 = Input() {{name="x"}} : f32[4]\n%{DIGITS} = Exp(%0) : f32[4]\n',
        "E0006",
    ),
    "an integer of 300 digits": (("tiny-check",), tiny_text("9" * 300), "E0006"),
    "60 symbols reversed": (
        ("tiny-index",),
        tiny_text(", ".join(MANY), f"  %r = RESHAPE(X) : fp32[{', '.join(reversed(MANY))}]"),
        "E0006",
    ),
    "a power of a sum of many": (("tiny-index",), tiny_text("*".join([f"({'+'.join(MANY)})"] * 14)), "E0006"),
    "a product of 200 powers of two": (
        ("tiny-index",),
        tiny_text("*".join(["1208925819614629174706176"] * 200)),
        "E0006",
    ),
    "letters where a type stands": (("tiny-check",), tiny_text("N").replace("fp32", "a" * 100_000, 1), "E0006"),
    "letters for a type in the DSL": (
        ("tiny-front",),
        f"graph main(x: {'a' * 100_000}) -> (y: f32[1]) {{ return x }}",
        "E0006",
    ),
    "letters for a type in Core IR": (("tiny-front",), f'%0 = Input() {{name="x"}} : {"a" * 100_000}\n', "E0006"),
    "letters for a dtype in JSON": (("tiny-front",), shaped("M").replace("fp32", "a" * 100_000), "E0101"),
    "a line of +1": (("tiny-check",), tiny_text(PLUS), "E0006"),
    "a line of +1 in JSON": (("tiny-front",), shaped(PLUS), "E0111"),
    "a line of +1 in the DSL": (
        ("tiny-front",),
        f"graph<N=1> main(x: f32[N]) -> (y: f32[N]) {{ return x {PLUS} }}",
        "E0006",
    ),
    "minus signs": (("tiny-check",), tiny_text("-" * 60_000 + "1"), "E0006"),
    "brackets": (("tiny-check",), tiny_text("(" * 60_000 + "1" + ")" * 60_000), "E0006"),
    "floors in floors": (("tiny-check",), tiny_text("floor(" * 3000 + "M" + "/2)" * 3000), "E0006"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_beyond_bounds_is_refused_in_time(kind: str) -> None:
    (command, *arguments), text, code = REFUSED[kind]
    assert code in codes(run(command, *arguments, text=text))


@pytest.mark.parametrize("size", ["M, N", "5, 7"])
def test_sixty_pairs_of_permute_and_reshape_pass_the_chain(size: str) -> None:
    turned = ", ".join(reversed(size.split(", ")))
    values, before = [], "X"
    for k in range(60):
        values += [
            f"  %p{k} = PERMUTE({before}) {{perm=[1, 0]}} : fp32[{turned}]",
            f"  %r{k} = RESHAPE(%p{k}) : fp32[{size}]",
        ]
        before = f"%r{k}"
    text = tiny_text(size, *values).replace("fp32[N]\n", f"fp32[{size}]\n").replace("Y = X", "Y = %r59")
    ending = run("tinyc", "--emit=poly", text=text)
    assert ending.code == 0 and ending.seconds < 20, ending.said


def test_a_power_of_a_sum_is_refused() -> None:
    assert codes(run("tinyc", text=shaped(POWER)))[0] in ("E0006", "E0111")


def test_onnx_functions_that_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx")
    from tinyir.front.onnx import translate

    monkeypatch.setattr(
        translate, "MAX_NODES", 2000
    )  # in the child too; the bound is one of nodes, whose work is alike
    from onnx import TensorProto, helper

    own = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["c"], [helper.make_node("Add", ["a", "a"], ["c"])], own)]
    for n in range(1, 31):
        calls = [
            helper.make_node(f"F{n - 1}", ["a"], ["b"], domain="own"),
            helper.make_node(f"F{n - 1}", ["b"], ["c"], domain="own"),
        ]
        functions.append(helper.make_function("own", f"F{n}", ["a"], ["c"], calls, own))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("F30", ["x"], ["y"], domain="own")], "g", [x], [y])
    onnx.save(helper.make_model(graph, functions=functions, opset_imports=own, ir_version=9), tmp_path / "m.onnx")
    assert codes(run("tiny-import", str(tmp_path / "m.onnx"))) == ["E0006"]


# --- counts of edited plans and kernels


def test_a_loop_of_step_zero_is_refused() -> None:
    for command in ("tiny-cu", "tiny-check", "tiny-opt"):
        assert codes(run(command, str(CASES / "gpu-step-zero" / "softmax.gpu"))) == ["E1602"]


@pytest.mark.parametrize("command", ["tiny-gpu", "tiny-check", "tiny-opt"])
def test_a_tile_of_zero_is_refused(command: str) -> None:
    assert codes(run(command, str(CASES / "plan-tile-zero" / "cumsum.plan"))) == ["E1508"]


ROW = """tinyir 1.1 plan

model r
  in  X           : fp32[R, 300]
  out Y           : fp32[R, 300]

program r

region r
  in  X           : fp32[R, 300]
  out Y           : fp32[R, 300]
  for i0: R, i1: 300
    %z             = reduce sum (i1) : fp32 { X[i0, i1] }
  yield Y[i0, i1] = fdiv(X[i0, i1], broadcast_in_dim(%z, dims=[0]))

plan r : sm90 row
  algo       row_resident
  tile       [1, 384]
  threads    [128]
  stages     1
  bind       i0.o -> cta.x, i1.i -> thread.x
  predicate  [i1]
"""


@pytest.mark.parametrize("tile, code", [(384, ""), (1 << 20, "E1513"), (1 << 31, "E1510")])
def test_a_row_that_no_threads_hold_is_refused(tile: int, code: str) -> None:
    ending = run("tiny-gpu", text=ROW.replace("384", str(tile)))
    assert code in codes(ending) if code else ending.code == 0


NUMBERS = ("0", "1", "3", "2147483648", "18446744073709551616")


@pytest.mark.parametrize("stage, reader", [("plan", "tiny-gpu"), ("gpu", "tiny-cu")])
@pytest.mark.parametrize("sample", ["softmax", "cumsum", "conv3x3_silu"])
def test_any_number_of_an_edited_text_is_obeyed_or_refused(sample: str, stage: str, reader: str) -> None:
    text = (SAMPLES / sample / f"{sample}.{stage}").read_text(encoding="utf-8")
    start = text.index(f"\n{ {'plan': 'plan', 'gpu': 'kernel'}[stage] } ")
    places = [m.span() for m in re.finditer(r"(?<![\w.])\d+(?![\w.])", text) if m.start() > start]
    sandbox.warm(reader, (), text.encode())
    for number, (low, high) in enumerate(places[:: max(1, len(places) // 12)]):
        ending = run(reader, text=text[:low] + NUMBERS[number % len(NUMBERS)] + text[high:])
        assert ending.code in (0, 1), (text[:low].count("\n") + 1, NUMBERS[number % len(NUMBERS)], ending.said)
