"""A symbol may have any name: what isl would read as a word of its own, in capitals or not, has another name there."""

from __future__ import annotations

import pytest

from tinyir.ir.expr import Expr
from tinyir.ir.sets import WORDS, as_affine, is_empty, read_set, symbol_params


@pytest.mark.parametrize("word", sorted(WORDS))
def test_isl_reads_a_symbol_of_any_name(word: str) -> None:
    for name in (word, word.upper(), word.title(), f"{word}s"):
        params = symbol_params([name])
        size = as_affine(Expr.of(name), params)
        assert not read_set(f"{{ [i] : 0 <= i < {size} }}", (str(size),)).is_empty()
        assert is_empty((("i0", Expr.of(name)),), ((name, 0, 9),), (Expr.of("i0") - name,))
