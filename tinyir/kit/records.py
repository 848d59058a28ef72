"""Frozen and slotted classes of fields: what this project uses of the standard library's `dataclasses`, made at a tenth
of its cost. A filter makes some 170 of them and lives for half a second.

The standard library writes six methods of a class as source text, and compiles each. Here `__init__` alone is source,
compiled when the class is first called; the others are closures over the names of the fields. The standard library's
own functions (`fields`, `replace`, `asdict`) take these classes too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
_KEPT = "_kept_hash"


class FrozenError(AttributeError):
    """A field of a frozen object is assigned or deleted."""


class Field:
    """One field: its name, its type as the source spells it, its default, and what it takes part in."""

    __slots__ = ("name", "type", "default", "default_factory", "init", "repr", "compare", "kw_only")

    def __init__(
        self,
        default: Any = MISSING,
        default_factory: Any = MISSING,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
        kw_only: bool = False,
    ):
        self.name, self.type = "", ""
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.compare, self.kw_only = init, repr, compare, kw_only

    @property
    def has_default(self) -> bool:
        """Whether an object can be made without a value for it."""
        return self.default is not MISSING or self.default_factory is not MISSING


def field(
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    init: bool = True,
    repr: bool = True,
    compare: bool = True,
    kw_only: bool = False,
) -> Any:
    """A field that says more than its type."""
    return Field(default, default_factory, init, repr, compare, kw_only)


@overload
def dataclass(cls: type[T], /) -> type[T]:
    """Of a class that is mutable and has no slots."""


@overload
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, keeps_hash: bool = False
) -> Callable[[type[T]], type[T]]:
    """What makes such a class."""


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: Any = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    keeps_hash: bool = False,
) -> Any:
    """The class with `__init__`, `__repr__`, `__eq__` and, if frozen, `__hash__` over its annotated fields, but for
    those that it has of its own. `keeps_hash` (of a frozen class with slots): the hash is kept in the object from the
    first time, which pays where objects are large and are asked for in many tables. Raises TypeError where a field
    without a default follows one with."""
    if cls is not None:
        return _made(cls, frozen, slots, eq, keeps_hash)
    return lambda cls: _made(cls, frozen, slots, eq, keeps_hash)


def fields(thing: Any) -> tuple[Field, ...]:
    """The fields of a class or of an object, in order."""
    return thing.__record_fields__


def is_dataclass(thing: Any) -> bool:
    """Whether a class or an object has fields."""
    return hasattr(thing, "__record_fields__")


def replace(thing: T, /, **changes: Any) -> T:
    """A copy with other values in some fields. Raises TypeError for a name that is not a field of `__init__`."""
    cls: Any = type(thing)
    copied = cls.__record_copy__
    if copied is None:
        return cls(**{f.name: getattr(thing, f.name) for f in cls.__record_fields__ if f.init} | changes)
    made = cls.__new__(cls)
    found = 0
    for name, get, put in copied:
        if name in changes:
            found += 1
            put(made, changes[name])
        else:
            put(made, get(thing))
    if found < len(changes):
        raise TypeError(f"{cls.__name__} has no field {', '.join(changes.keys() - {name for name, _, _ in copied})}")
    return made


def _made(cls: Any, frozen: bool, slots: bool, eq: bool, keeps_hash: bool) -> Any:
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__[1:]):
        for f in base.__dict__.get("__record_fields__", ()):
            found[f.name] = f
    own = []
    for name, kind in cls.__dict__.get("__annotations__", {}).items():
        if str(kind).removeprefix("typing.").startswith("ClassVar"):
            continue
        default = cls.__dict__.get(name, MISSING)
        f = default if isinstance(default, Field) else Field(default)
        f.name, f.type = name, kind
        found[name] = f
        own.append(f)
    every = tuple(found.values())
    if slots:
        cls = _with_slots(cls, own, (_KEPT,) if keeps_hash else ())
    else:
        for f in own:
            if f.default is not MISSING:
                setattr(cls, f.name, f.default)
            elif f.name in cls.__dict__:
                delattr(cls, f.name)
    given = cls.__dict__
    cls.__record_fields__ = every
    cls.__dataclass_fields__ = _Standard()
    cls.__match_args__ = tuple(f.name for f in every if f.init and not f.kw_only)
    is_plain = slots and not hasattr(cls, "__post_init__") and "__init__" not in given and all(f.init for f in every)
    cls.__record_copy__ = tuple(_accessors(cls, every)) if is_plain else None
    if "__init__" not in given:
        _init_later(cls, every, frozen)
    if "__repr__" not in given:
        cls.__repr__ = _repr_of([f.name for f in every if f.repr])
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
        if slots and "__setstate__" not in given:
            cls.__getstate__, cls.__setstate__ = _get_state, _set_state
    if eq:
        _compare(cls, tuple(f.name for f in every if f.compare), frozen, given)
    return cls


def _with_slots(cls: Any, own: Iterable[Field], others: tuple[str, ...]) -> Any:
    """The class anew, with its own fields as slots, and others."""
    names = tuple(f.name for f in own)
    kept = {k: v for k, v in cls.__dict__.items() if k not in names and k not in ("__dict__", "__weakref__")}
    taken = {n for base in cls.__mro__[1:] for n in base.__dict__.get("__slots__", ())}
    kept["__slots__"] = (*(n for n in names if n not in taken), *others)
    made = type(cls)(cls.__name__, cls.__bases__, kept)
    made.__qualname__ = cls.__qualname__
    return made


def _accessors(cls: Any, every: Iterable[Field]) -> Iterable[tuple[str, Any, Any]]:
    for f in every:
        slot = getattr(cls, f.name)
        yield f.name, slot.__get__, slot.__set__


def _init_later(cls: Any, every: tuple[Field, ...], frozen: bool) -> None:
    """Gives the class an `__init__` that is written when it is first called."""
    is_late = False
    for f in every:
        if f.init and not f.kw_only:
            if is_late and not f.has_default:
                raise TypeError(f"{cls.__name__}.{f.name} has no default and follows a field that has one")
            is_late = is_late or f.has_default

    written: Any = None

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        nonlocal written
        written = written or _init_of(cls, every, frozen)
        if cls.__init__ is __init__:  # it may be wrapped
            cls.__init__ = written
        written(self, *values, **named)

    cls.__init__ = __init__


def _init_of(cls: Any, every: tuple[Field, ...], frozen: bool) -> Any:
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    plain, named, lines = [], [], []
    for n, f in enumerate(every):
        value = f.name
        if f.default_factory is not MISSING:
            scope[f"_make{n}"] = f.default_factory
            value = f"_make{n}() if {f.name} is _missing else {f.name}" if f.init else f"_make{n}()"
        elif f.default is not MISSING:
            scope[f"_default{n}"] = f.default
            value = value if f.init else f"_default{n}"
        elif not f.init:
            continue
        default = "=_missing" if f.default_factory is not MISSING else f"=_default{n}" if f.has_default else ""
        if f.init:
            (named if f.kw_only else plain).append(f.name + default)
        if not frozen:
            lines.append(f"    self.{f.name} = {value}")
        elif hasattr(getattr(cls, f.name, None), "__set__"):  # a slot: the quickest way in
            scope[f"_put{n}"] = getattr(cls, f.name).__set__
            lines.append(f"    _put{n}(self, {value})")
        else:
            lines.append(f"    _set(self, {f.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    words = ", ".join(["self", *plain, *(["*", *named] if named else [])])
    exec(f"def __init__({words}):\n" + "\n".join(lines or ["    pass"]), scope)  # noqa: S102 - names of fields
    made = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _repr_of(names: list[str]) -> Any:
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    return __repr__


def _compare(cls: Any, names: tuple[str, ...], frozen: bool, given: Any) -> None:
    """`__eq__` by the fields of objects of one class; `__hash__` to go with it where nothing changes them."""
    values: Any = attrgetter(*names) if names else lambda self: ()

    def __eq__(self: Any, other: Any) -> Any:
        if self is other:
            return True
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    def __hash_of_one__(self: Any) -> int:
        return hash((values(self),))

    if "__eq__" not in given:
        cls.__eq__ = __eq__
    if given.get("__hash__") is None:
        cls.__hash__ = (__hash_of_one__ if len(names) == 1 else __hash__) if frozen else None
        if _KEPT in given:
            cls.__hash__ = _keeping(cls.__hash__, given[_KEPT])


def _keeping(counted: Callable[[Any], int], slot: Any) -> Callable[[Any], int]:
    """A hash that is counted once for each object."""
    get, put = slot.__get__, slot.__set__

    def __hash__(self: Any) -> int:
        try:
            return get(self)
        except AttributeError:
            found = counted(self)
            put(self, found)
            return found

    return __hash__


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in self.__record_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(self.__record_fields__, state):
        object.__setattr__(self, f.name, value)


class _Standard:
    """The fields as the standard library's functions look for them; made when one does."""

    def __get__(self, thing: Any, cls: Any) -> Any:
        import dataclasses

        words = [
            (
                f.name,
                f.type,
                dataclasses.field(
                    **({} if f.default is MISSING else {"default": f.default}),
                    **({} if f.default_factory is MISSING else {"default_factory": f.default_factory}),
                    init=f.init,
                    repr=f.repr,
                    compare=f.compare,
                    kw_only=f.kw_only,
                ),
            )
            for f in cls.__record_fields__
        ]
        cls.__dataclass_fields__ = found = dataclasses.make_dataclass(cls.__name__, words).__dataclass_fields__
        return found
