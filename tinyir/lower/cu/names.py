"""Names of the model as C identifiers: as they are where C allows it, so that grep finds them, else changed and kept
apart; and in comments."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...kit.names import FreeNames
from ...kit.quote import visible
from ...target.intrinsics import INTRINSICS

RESERVED = frozenset(
    """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr const_cast
continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto
if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
xor_eq half threadIdx blockIdx blockDim gridDim warpSize dim3 min max abs exp log pow sin cos tan tanh erf sqrt rsqrt
fabs floor ceil round rint trunc fmod exp2 log2 exp10 main printf malloc free assert y0 y1 yn j0 j1 jn smem element turn
lanes w e0 e1 e2 e3 e4
""".split()
)

_NEVER = frozenset((*RESERVED, *(i.name for i in INTRINSICS), *(f"{w}f" for w in RESERVED)))


def comment(words: str) -> str:
    """A comment that ends with its line, whatever the words are: no character breaks the line, and no backslash at its
    end joins the next to it."""
    line = f"// {visible(words)}"
    return f"{line}." if line.endswith("\\") else line


def words_of(lines: Iterable[str]) -> set[str]:
    """The identifiers and numbers in lines of code; what comments say is not code."""
    return set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", "\n".join(lines))))


def _again(base: str, number: int) -> str:
    return f"{base}_{'' if number == 2 else number}"


class Names:
    """One kernel's identifiers. A word is asked for by kind (tensor, symbol, integer, array, value) and name; the first
    to ask for a spelling gets it; `taken` are spellings that nobody gets."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._free = FreeNames((*_NEVER, *taken), _again)

    @property
    def given(self) -> frozenset[str]:
        """The identifiers so far."""
        return frozenset(self._given.values())

    def of(self, kind: str, name: str) -> str:
        """The identifier."""
        if (kind, name) not in self._given:
            base = re.sub(r"\W", "_", name, flags=re.ASCII)
            base = f"_{base}" if not base or base[0].isdigit() else base
            base = re.sub(r"_{2,}", "_", base)  # two underscores are the implementation's
            base = base[1:] + "_" if re.match(r"_[A-Z]", base) else base
            self._given[kind, name] = self._free.name(base)
        return self._given[kind, name]
