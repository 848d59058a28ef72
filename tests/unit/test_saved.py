"""Programs that are saved and loaded: the same numbers, nothing compiled, and a diagnostic for every file that is
none."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyir
from tinyir.ir import gpu, manifest, packed
from tinyir.kit import work
from tinyir.kit.diag import Refused
from tinyir.kit.kept import cache_dir, sealed
from tinyir.runtime import compile as compiler
from tinyir.runtime import cuda, programs, saved
from tinyir.runtime.saved import FORMAT, Saved, read_program, write_program

from .fake_cuda import Machine, machine  # noqa: F401
from .families import FAMILIES, family
from .stages import graph
from .test_api import LAYERS, arrays_of, expected

WEIGHTS = {n: a for n, a in arrays_of(7).items() if n != "x"}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A saved program with its weights inside."""
    with tinyir.compile(json.dumps(LAYERS), device="cpu", params=WEIGHTS) as made:
        made.save(tmp_path / "p.tinyir")
    return tmp_path / "p.tinyir"


def test_a_loaded_program_gives_the_same(program: Path) -> None:
    arrays = arrays_of(7)
    with tinyir.load(program, device="cpu") as loaded, tinyir.compile(json.dumps(LAYERS), device="cpu") as made:
        assert loaded.inputs == {"x": "fp32[M, 20]"} and loaded.outputs == made.outputs and loaded.text == made.text
        found = loaded(arrays["x"])["p"]
        assert np.array_equal(found, made(**arrays)["p"])
        np.testing.assert_allclose(found, expected(arrays), rtol=1e-4, atol=1e-5)


def test_arrays_are_where_the_file_was_read(program: Path) -> None:
    """Hundreds of megabytes are not copied once more."""
    owners = []
    for array in read_program(program).params.values():
        held: Any = array
        while isinstance(held, np.ndarray):
            held = held.base
        owners.append(held.obj)
    assert len(owners) == len(WEIGHTS) and all(owner is owners[0] for owner in owners)
    assert len(owners[0]) == program.stat().st_size


def test_a_loaded_program_is_saved_again(program: Path, tmp_path: Path) -> None:
    with tinyir.load(program, device="cpu") as loaded:
        loaded.save(str(tmp_path / "q.tinyir"))
    assert (tmp_path / "q.tinyir").read_bytes() == program.read_bytes()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_module_is_unpacked_as_it_was(name: str) -> None:
    module = manifest.parse(family(name).text)
    found = packed.unpacked(json.loads(json.dumps(packed.packed(module))))
    assert found == module and manifest.show(found) == manifest.show(packed.unpacked(packed.packed(found)))


@pytest.mark.parametrize("nodes", [[], [1], ["x", ["tuple", 1]], [["expr.Expr"]], [["os.system", 0]], [["tuple", -1]]])
def test_other_nodes_are_refused(nodes: list[Any]) -> None:
    with pytest.raises(ValueError, match="later parts|fields|unknown node|root"):
        packed.unpacked(nodes)


def test_weights_stay_in_their_files(tmp_path: Path) -> None:
    model, arrays = json.loads(json.dumps(LAYERS)), arrays_of(5)
    (tmp_path / "model").mkdir()
    raw = b""
    for name in WEIGHTS:
        model["tensors"][name] |= {"file": "w.bin", "offset": len(raw), "bytes": arrays[name].nbytes}
        raw += arrays[name].tobytes()
    (tmp_path / "model" / "w.bin").write_bytes(raw)
    (tmp_path / "model" / "m.json").write_text(json.dumps(model))
    (tmp_path / "kept").mkdir()
    with tinyir.compile(tmp_path / "model" / "m.json", device="cpu") as made:
        made.save(tmp_path / "kept" / "p.tinyir")
    assert arrays["w1"].tobytes() not in (tmp_path / "kept" / "p.tinyir").read_bytes()
    moved = (tmp_path / "moved").resolve()
    moved.mkdir()
    (tmp_path / "kept").rename(moved / "kept")
    (tmp_path / "model").rename(moved / "model")
    for given in (None, moved / "model"):
        with tinyir.load(moved / "kept" / "p.tinyir", device="cpu", weights=given) as loaded:
            np.testing.assert_allclose(loaded(arrays["x"])["p"], expected(arrays), rtol=1e-4, atol=1e-5)
    with pytest.raises(Refused, match="E1741"):
        tinyir.load(moved / "kept" / "p.tinyir", device="cpu", weights=tmp_path)


def test_arrays_of_every_dtype_are_kept(tmp_path: Path) -> None:
    types = {"x": ("fp32", [2, 3]), "y": ("bf16", [3]), "z": ("i64", [])}
    text = graph(
        types, {f"{n}2": t for n, t in types.items()}, *(("Elementwise", [n, n], f"{n}2", {"fn": "add"}) for n in types)
    )
    params = {"x": np.ones((3, 2), np.float32).T, "y": np.ones(3, ml_dtypes.bfloat16), "z": np.int64(3)}
    with tinyir.compile(text, device="cpu", params=params) as made:
        wanted = made()
        made.save(tmp_path / "p")
    with tinyir.load(tmp_path / "p", device="cpu") as loaded:
        found = loaded()
    assert all(np.array_equal(found[name], wanted[name]) and found[name].dtype == wanted[name].dtype for name in wanted)


# --- on a GPU


def test_nothing_is_compiled_again(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with tinyir.compile(json.dumps(LAYERS), device="cuda", params=WEIGHTS, jobs=3) as made:
        made.save(tmp_path / "p")
    kept = read_program(tmp_path / "p")
    entries = {launch.entry for launch in kept.module.launches}
    assert kept.arch == "sm_90a" and kept.cubins == {name: name.encode() for name in entries}
    monkeypatch.setattr(cuda, "cubins_of", lambda *_, **__: pytest.fail("compiled"))
    monkeypatch.setattr(manifest, "parse", lambda _: pytest.fail("parsed"))
    with tinyir.load(tmp_path / "p", device="cuda") as loaded:
        machine.names()
        loaded(arrays_of(5)["x"])
        assert "launch" in machine.names()


def test_another_gpu_compiles_the_text(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with tinyir.compile(json.dumps(LAYERS), device="cuda", params=WEIGHTS) as made:
        made.save(tmp_path / "p")
    kept, asked = read_program(tmp_path / "p"), []
    write_program(tmp_path / "q", Saved(kept.text, kept.module, "sm_80", kept.cubins, None, kept.params))

    def compiled(text: str, arch: str, entries: Any, jobs: Any) -> dict[str, compiler.Cubin]:
        asked.append((arch, jobs))
        return {n: compiler.Cubin(n.encode(), arch, "paper", "") for n in entries}

    monkeypatch.setattr(cuda, "cubins_of", compiled)
    with tinyir.load(tmp_path / "q", device="cuda", jobs=2):
        assert asked == [("sm_90a", 2)]


# --- faults


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(Refused) as found:
        tinyir.load(path)
    (diag,) = found.value.diags
    return diag.code, str(diag.facts.get("reason", diag.facts.get("given")))


@pytest.mark.parametrize("at", [20, 200, -200, -3])
def test_a_damaged_file_is_refused(program: Path, at: int) -> None:
    raw = bytearray(program.read_bytes())
    raw[at] ^= 1
    program.write_bytes(raw)
    assert refused(program) == ("E1743", "it is damaged: its bytes are not those that were written")


def test_what_is_no_program_is_refused(program: Path, tmp_path: Path) -> None:
    raw = program.read_bytes()
    assert refused(tmp_path / "none")[0] == refused(tmp_path)[0] == "E1743"
    for content in (b"", b"\x00" * 99, b"tinyir 1.0 cu\n"):
        program.write_bytes(content)
        assert refused(program) == ("E1743", "it does not begin as one")
    program.write_bytes(raw[: len(raw) // 2])
    assert refused(program) == ("E1743", "it is damaged: its bytes are not those that were written")
    first = raw.index(b"\n") + 1
    second = raw.index(b"\n", first)
    for head in (b"[]", b"{}", raw[first:second].replace(b'"nodes": ', b'"nodes": 9'), b"{", b'{"text": -1}'):
        program.write_bytes(sealed(raw[:first] + head + raw[second : raw.rindex(b"\n#")]))
        code, reason = refused(program)
        assert code == "E1743" and "does not fit" in reason


@pytest.mark.parametrize("given", ["0", "1", "1.5", "x"])
def test_another_format_is_refused(program: Path, given: str) -> None:
    raw = program.read_bytes()
    program.write_bytes(raw.replace(f"program {FORMAT}\n".encode(), f"program {given}\n".encode(), 1))
    assert refused(program) == ("E1744", given)


def test_a_program_of_other_fields_is_read_from_its_text(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = read_program(program)
    monkeypatch.setattr(saved, "LAYOUT", "another")
    monkeypatch.setattr(saved, "unpacked", lambda _: pytest.fail("unpacked"))
    assert read_program(program).module == wanted.module


def test_a_folder_that_is_not_there_is_told(program: Path, tmp_path: Path) -> None:
    with tinyir.load(program, device="cpu") as loaded, pytest.raises(Refused, match="E1742"):
        loaded.save(tmp_path / "no" / "folder")
    assert [f.name for f in tmp_path.iterdir()] == ["p.tinyir"]


def test_choices_are_named(program: Path) -> None:
    with pytest.raises(ValueError, match="device 'tpu' is none of"):
        tinyir.load(program, device="tpu")  # pyright: ignore[reportArgumentType]
    for call in (lambda: tinyir.load(program, jobs=0), lambda: tinyir.compile(json.dumps(LAYERS), jobs=0)):
        with pytest.raises(ValueError, match="jobs=0"):
            call()


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept programs, in a cache with nothing in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_dir() / "programs"


def made(text: str, **how: Any) -> tuple[str, int]:
    """The CUDA of a model, and how many launches were judged for it."""
    before = work.counts["launches judged"]
    with tinyir.compile(text, device="cpu", **how) as program:
        return program.text, work.counts["launches judged"] - before


def test_a_text_that_was_compiled_is_not_compiled_again(empty: Path) -> None:
    first, judged = made(json.dumps(LAYERS))
    assert judged > 0 and len([*empty.iterdir()]) == 1
    assert made(json.dumps(LAYERS)) == (first, 0)
    with tinyir.compile(json.dumps(LAYERS), device="cpu", params=WEIGHTS) as program:  # whatever comes with it
        np.testing.assert_allclose(program(arrays_of(7)["x"])["p"], expected(arrays_of(7)), rtol=1e-4, atol=1e-5)
    assert made(json.dumps(LAYERS), arch="sm80")[1] > 0 and made(json.dumps(LAYERS) + " ")[1] > 0
    assert len([*empty.iterdir()]) == 3


def test_a_damaged_program_is_made_again(empty: Path) -> None:
    first, judged = made(json.dumps(LAYERS))
    (kept,) = empty.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:1000] + b"?" + whole[1001:])
    assert made(json.dumps(LAYERS)) == (first, judged) and kept.read_bytes() == whole


def test_another_code_makes_another_program(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, judged = made(json.dumps(LAYERS))
    monkeypatch.setattr(programs, "code", lambda: "another")
    assert made(json.dumps(LAYERS))[1] == judged


def test_the_least_recently_used_programs_go(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST", 2)
    texts = [json.dumps(LAYERS) + " " * n for n in range(3)]
    for at, text in enumerate(texts[:2]):
        made(text)
        for file in empty.iterdir():
            os.utime(file, (at, at) if file.stat().st_mtime > 10 else None)
    made(texts[0])
    made(texts[2])
    assert [made(text)[1] == 0 for text in (texts[0], texts[2], texts[1])] == [True, True, False]


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tinyir").write_text("a file where a folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert made(json.dumps(LAYERS))[1] > 0


def test_a_kept_program_gets_the_cubins_of_the_first_gpu(empty: Path, machine: Machine) -> None:  # noqa: F811
    made(json.dumps(LAYERS))
    (kept,) = empty.iterdir()
    assert not programs.find(kept.stem).cubins
    tinyir.compile(json.dumps(LAYERS), device="cuda", params=WEIGHTS).close()
    found = [programs.find(file.stem) for file in empty.iterdir()]
    assert any(one.arch and one.cubins.keys() == {launch.entry for launch in one.module.launches} for one in found)


def test_kernels_are_compiled_while_they_are_checked(
    empty: Path,
    machine: Machine,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked, compiled = threading.Event(), threading.Event()
    cubins_of, check = cuda.cubins_of, gpu.check
    calls: list[tuple[str, ...]] = []

    def compiling(text: str, arch: str, entries: Any, jobs: int | None) -> Any:
        calls.append(tuple(entries))
        if len(calls) == 1:
            assert checked.wait(60)  # the check has begun, and has not ended
        compiled.set()
        return cubins_of(text, arch, entries, jobs)

    def checking(module: Any) -> Any:
        checked.set()
        assert compiled.wait(60)
        return check(module)

    monkeypatch.setattr(cuda, "cubins_of", compiling)
    monkeypatch.setattr(gpu, "check", checking)
    tinyir.compile(json.dumps(LAYERS), device="cuda", params=WEIGHTS, jobs=1).close()
    assert len(calls) == 2 and set(calls[0]) == set(calls[1])
