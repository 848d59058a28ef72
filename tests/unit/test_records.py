"""Classes of fields are what the standard library's dataclasses would be, in all that this project uses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from tinyir.kit import records

LIBRARIES = (dataclasses, records)


def plain(library: Any) -> Any:
    @library.dataclass(frozen=True, slots=True)
    class Plain:
        """A class."""

        one: int
        two: str = "two"
        kind: ClassVar[str] = "plain"

    return Plain


def wide(library: Any) -> Any:
    @library.dataclass(frozen=True, slots=True)
    class Wide:
        """A class."""

        one: int
        span: int | None = library.field(default=None, compare=False)
        made: list = library.field(default_factory=list)
        last: int = library.field(default=7, kw_only=True)

    return Wide


def mutable(library: Any) -> Any:
    @library.dataclass
    class Mutable:
        """A class."""

        one: int
        many: dict = library.field(default_factory=dict)
        end: int = 3

    return Mutable


def slotted(library: Any) -> Any:
    @library.dataclass(slots=True, eq=False)
    class Slotted:
        """A class."""

        one: int
        two: int = 2

    return Slotted


def derived(library: Any) -> Any:
    @library.dataclass(slots=True)
    class Base:
        """A class."""

        one: int
        two: int = 2

    @library.dataclass(slots=True)
    class Derived(Base):
        """A class of more."""

        three: int = 3

    return Derived


def derived_without_slots(library: Any) -> Any:
    @library.dataclass
    class Base:
        """A class."""

        one: int
        two: set = library.field(default_factory=set)

    @library.dataclass
    class Derived(Base):
        """A class of more."""

        three: int = 3

    return Derived


def late(library: Any) -> Any:
    @library.dataclass(frozen=True, slots=True)
    class Late:
        """A class that works out a field."""

        one: int
        twice: int = library.field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.one)

    return Late


def own(library: Any) -> Any:
    @library.dataclass(frozen=True, slots=True)
    class Own:
        """A class with methods of its own."""

        one: int
        two: int = 2

        def __hash__(self) -> int:
            return 11

        def __repr__(self) -> str:
            return f"own {self.one}"

    return Own


KINDS = [plain, wide, mutable, slotted, derived, derived_without_slots, late, own]
CALLS: list[tuple[tuple, dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4), {}),
    ((), {"one": 1}),
    ((1,), {"two": 5}),
    ((1,), {"last": 5}),
    ((1,), {"one": 5}),
    ((1,), {"none": 5}),
]


def tried(work: Callable[[], Any]) -> Any:
    """What comes, or the kind of what is raised."""
    try:
        return work()
    except (TypeError, AttributeError) as fault:
        return TypeError if isinstance(fault, TypeError) else AttributeError


@pytest.mark.parametrize("kind", KINDS)
def test_objects_are_made_alike(kind: Callable[[Any], Any]) -> None:
    found = []
    for library in LIBRARIES:
        cls = kind(library)
        shown = [tried(lambda: repr(cls(*given, **named))) for given, named in CALLS]  # noqa: B023
        found.append([s.split(" object at ")[0] if isinstance(s, str) else s for s in shown])
    assert found[0] == found[1]
    assert any(isinstance(s, str) for s in found[0]) and TypeError in found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_equality_hashes_and_copies(kind: Callable[[Any], Any]) -> None:
    seen = []
    for library in LIBRARIES:
        cls = kind(library)
        one, same, other = cls(1), cls(1), cls(2)
        seen.append(
            (
                one == same,
                one == other,
                one == 1,
                one == copy.copy(one),
                tried(lambda: hash(one) == hash(same)),  # noqa: B023
                tried(lambda: library.replace(one, one=2) == other),  # noqa: B023
                tried(lambda: library.replace(one, none=2)),  # noqa: B023
                cls.__match_args__,
                [f.name for f in library.fields(cls)],
                library.is_dataclass(one),
                library.is_dataclass(1),
                tried(lambda: setattr(one, "one", 5)),  # noqa: B023
                tried(lambda: delattr(same, "one")),  # noqa: B023
            )
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("kind", [plain, wide, derived, mutable])
def test_the_standard_library_takes_them(kind: Callable[[Any], Any]) -> None:
    one = kind(records)(1)
    assert dataclasses.is_dataclass(one)
    assert dataclasses.replace(one, one=2) == kind(records)(2) or type(one) is not kind(records)
    assert [f.name for f in dataclasses.fields(one)] == [f.name for f in records.fields(one)]
    assert dataclasses.asdict(one) == dataclasses.asdict(kind(dataclasses)(1))


@records.dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle finds."""

    one: int
    two: tuple = ()


def test_they_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_a_field_without_a_default_comes_first() -> None:
    for library in LIBRARIES:
        with pytest.raises(TypeError):

            @library.dataclass
            class _Wrong:
                one: int = 1
                two: int


def test_nothing_is_compiled_before_it_is_needed() -> None:
    cls = plain(records)
    assert cls.__init__.__code__.co_varnames[:2] == ("self", "values")
    cls(1)
    assert cls.__init__.__code__.co_varnames[:3] == ("self", "one", "two")


def test_a_kept_hash_is_counted_once_and_is_no_field() -> None:
    counted = []

    class Word(str):
        def __hash__(self) -> int:
            counted.append(str(self))
            return super().__hash__()

    @records.dataclass(frozen=True, slots=True, keeps_hash=True)
    class Kept:
        word: str
        note: int = records.field(default=0, compare=False)

    one = Kept(Word("a"), 1)
    assert hash(one) == hash(one) == hash(Kept("a")) and counted == ["a"]
    other = records.replace(one, word="b")
    assert hash(other) != hash(one) and other.note == 1 and [f.name for f in records.fields(one)] == ["word", "note"]
    assert copy.copy(one) == one and hash(copy.copy(one)) == hash(one)
