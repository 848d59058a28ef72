"""What is kept is used only while it is whole: a damaged file is made again, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.kit.kept import cache_dir, keep, kept, sealed, unsealed
from tinyir.kit.text import Grammar
from tinyir.runtime import cache
from tinyir.runtime.compile import Compiler, cubin_of

from ..faults.plant import DAMAGES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_dir()


def damage(folder: Path, pattern: str, how: str) -> None:
    files = sorted(folder.rglob(pattern))
    assert files
    for file in files:
        file.write_bytes(DAMAGES[how](file.read_bytes()))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("pattern", ["*.so", "*.sha256", "*"])
def test_a_built_file_is_made_again_when_it_or_its_index_is_damaged(folder: Path, pattern: str, how: str) -> None:
    calls = []

    def build(out: Path) -> None:
        calls.append(out)
        out.write_bytes(b"machine code" * 100)

    for _ in range(2):
        assert cache.built("sim", "key", ".so", build).read_bytes() == b"machine code" * 100
    assert len(calls) == 1
    damage(folder / "sim", pattern, how)
    assert cache.built("sim", "key", ".so", build).read_bytes() == b"machine code" * 100
    assert len(calls) == 2 and [f for f in (folder / "sim").iterdir() if f.name.startswith(".")] == []


@pytest.mark.parametrize("how", DAMAGES)
def test_a_cubin_and_its_log_are_compiled_again(folder: Path, how: str) -> None:
    calls = []
    compiler = Compiler(
        "own 1", lambda text, arch: (calls.append(text), (b"\x7fELF" + text.encode(), f"log of {arch}"))[1]
    )
    for count in (1, 1):
        found = cubin_of("code", "sm_90a", compiler)
        assert (found.image, found.log, len(calls)) == (b"\x7fELFcode", "log of sm_90a", count)
    damage(folder / "cubin", "*.cubin", how)
    found = cubin_of("code", "sm_90a", compiler)
    assert (found.image, found.log, len(calls)) == (b"\x7fELFcode", "log of sm_90a", 2)


@pytest.mark.parametrize("how", DAMAGES)
def test_grammar_tables_are_made_again(folder: Path, how: str) -> None:
    wanted = Grammar("expr", ("guard",)).parse("0 <= i0 < M")
    damage(folder, "reader-expr-*.json", how)
    assert Grammar("expr", ("guard",)).parse("0 <= i0 < M") == wanted
    (file,) = folder.glob("reader-expr-*.json")
    assert kept(file.name) is not None, "what was made again is kept"


def test_a_forged_table_is_none(folder: Path) -> None:
    """One that carries its own sha256 and is not a table."""
    wanted = Grammar("expr", ("guard",)).parse("k0 = 3")
    (file,) = folder.glob("reader-expr-*.json")
    for content in (b"[]", b'{"l": [{"d": []}, {"d": []}]}', b"{", b'{"x": 1}', b"\xff"):
        keep(file.name, content)
        assert Grammar("expr", ("guard",)).parse("k0 = 3") == wanted


@pytest.mark.parametrize("how", DAMAGES)
def test_what_is_kept_is_whole_or_absent(folder: Path, how: str) -> None:
    file = keep("kind/a", b"first line\nlast")
    assert file == folder / "kind" / "a" and kept("kind/a") == b"first line\nlast"
    file.write_bytes(DAMAGES[how](file.read_bytes()))
    assert kept("kind/a") is None and kept("kind/none") is None


def test_a_name_is_part_of_what_is_kept(folder: Path) -> None:
    for name in ("kind/a", "kind/b"):
        keep(name, name.encode())
    (folder / "kind" / "a").replace(folder / "kind" / "b")
    assert kept("kind/a") is None and kept("kind/b") is None
    assert unsealed(sealed(b"a", "x"), "y") is None and unsealed(sealed(b"a")) == b"a"
