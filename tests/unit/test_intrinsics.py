"""Device functions: only what is called is printed, with what it calls; PTX stands inside the guard alone."""

from __future__ import annotations

import re

import pytest

from tinyir.ir.intrinsics import GUARDED, INTRINSICS, Intrinsic, intrinsics_of, show_intrinsics



def test_only_what_is_called_is_printed() -> None:
    assert intrinsics_of("y[i] = x[i] + 1;  // max_nan") == ()
    assert [i.name for i in intrinsics_of("floor_divide(a, b)")] == ["is_negative", "truncated_divide", "remainder_of", "floor_divide"]
    assert show_intrinsics(()) == ""


@pytest.mark.parametrize("item", INTRINSICS, ids=lambda i: i.name)
def test_what_a_function_calls_stands_before_it(item: Intrinsic) -> None:
    text = show_intrinsics(intrinsics_of(item.name))
    names = [i.name for i in intrinsics_of(item.name)]
    first = {name: re.search(rf"\b{name}\b", re.sub(r"//[^\n]*", "", text)).start() for name in names}
    assert sorted(names, key=first.__getitem__).index(item.name) == len(names) - 1 or item in GUARDED or item.text.startswith("struct")
    assert "#include" not in text


@pytest.mark.parametrize("item", GUARDED, ids=lambda i: i.name)
def test_every_function_with_ptx_is_declared_and_guarded(item: Intrinsic) -> None:
    text = show_intrinsics(intrinsics_of(item.name))
    assert item.declaration in text and text.index(item.declaration) < text.index("#ifndef TINYIR_SIM") < text.index(item.text) < text.index("#endif")


def test_no_ptx_stands_outside_the_guard() -> None:
    assert [i.name for i in INTRINSICS if "asm" in i.text and i not in GUARDED] == []
