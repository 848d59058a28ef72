"""Programs of many folds as tiny text, each with an output of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def folds_of(op: str, dtype: str, *, is_exclusive: bool) -> Iterator[tuple[str, str, str]]:
    """(output, shape, value) of the folds by `op` that all dtypes have: of `x` [5, 64] along rows and columns, of
    `long` [3000], and scans of both, there and back."""
    stated, first = f"op={op}, dtype={dtype}", ", exclusive=true" if is_exclusive else ""
    yield f"{op}.rows", "[5]", f"REDUCE(x) {{{stated}, axes=[1]}}"
    yield f"{op}.columns", "[64]", f"REDUCE(x) {{{stated}, axes=[0]}}"
    yield f"{op}.line", "[]", f"REDUCE(long) {{{stated}, axes=[0]}}"
    yield f"{op}.scan", "[5, 64]", f"SCAN(x) {{{stated}, axis=1{first}}}"
    yield f"{op}.back", "[5, 64]", f"SCAN(x) {{{stated}, axis=0, reverse=true, exclusive=true}}"
    yield f"{op}.run", "[3000]", f"SCAN(long) {{{stated}, axis=0{first}}}"


def program(
    inputs: Mapping[str, str], outputs: Iterable[tuple[str, str, str]], dtype: str, before: Iterable[str] = ()
) -> str:
    """The text: inputs with their types, values that come `before`, and outputs of `dtype`."""
    outputs = list(outputs)
    return "\n".join(
        [
            "tinyir 1.0 tiny\n\nmodel folds",
            *(f"  in  {name} : {type}" for name, type in inputs.items()),
            *(f"  out {name} : {dtype}{shape}" for name, shape, _ in outputs),
            "",
            *before,
            *(f"  %{name} = {value} : {dtype}{shape}" for name, shape, value in outputs),
            "",
            "outputs: " + ", ".join(f"%{name}" for name, _, _ in outputs) + "\n",
        ]
    )
