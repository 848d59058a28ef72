"""The tables of a grammar are built once; after that they come from the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.kit.text import Grammar


def test_the_second_reader_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lark

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = "0 <= i0 < M and k0 = 3"
    built = Grammar("expr", ("guard",)).parse(text)
    monkeypatch.setattr(lark.Lark, "__init__", lambda *_, **__: pytest.fail("the grammar was built again"))
    read = Grammar("expr", ("guard",)).parse(text)
    assert read == built
    assert read.meta.start_pos == built.meta.start_pos == 0
