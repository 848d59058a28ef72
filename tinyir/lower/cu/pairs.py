"""Two elements of fp16 that are neighbours at once, as a word, where arithmetic in fp16 rounds as the text does.

    cast(mul(sub(cast(and(shr(Q[h, i], s), 15)) : fp32, 8.0), cast(S[h]) : fp32)) : fp16     of s = 0 and of s = 4
    product_of_pairs(difference_of_pairs(raised_pair(bytes_of(Q[h], i, i, 0), 0x00f0000fu, 0x54006400u), 0x54806408u),
                     pair_of_fp16(S[h], S[h]))

An integer of 8 bits is the fraction of a number of fp16 that is 1024 more, or where it is four bits further up, of one
that is 64 more. Differences of integers are exact in fp16 up to 2048; and the product of two numbers of fp16, exact in
fp32, is rounded once by both. The other operand has its neighbours as they are in memory. Bytes that are filled by
whole words stay words (`in_words`). Integers in words of 32 bits are taken out of one word, whose byte has both, or the
same bits of two words (`byte_twice`, `halves_of`); what is subtracted from many is brought near to them once.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable

from ...ir.body import Binary, Body, Index, Literal, Read, Unary, walk
from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.walk import statements
from ...ir.intervals import Interval
from ...ir.neighbours import is_multiple
from ...ir.remainder import remainders
from ...ir.types import DTYPES, DType
from ...kit.records import dataclass, replace
from .narrow import narrow
from .value import Values

RAISED = 1024  # what an integer is a fraction of
RAISED_BYTE = 0x64  # the upper one of that number
MOST = 2048  # integers up to which all are numbers of fp16
BYTES = ("i8", "u8")
WIDE = ("i32", "u32")
FLOATS = ("fp16", "fp32")
MASKS = (1, 3, 15, 255)  # of numbers of which bytes hold some
NOTHING = (Literal(0, DTYPES["i32"]), Interval(0, 0))  # bits that nothing moves
BYTE = 0xFF
WORD = 4  # bytes of it
NUMBERS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
QUOTIENTS = {  # of what is not below zero
    "mod": lambda number, by: number - by * (number // by),
    "shr": lambda number, by: number // (1 << by),
}
Two = tuple[Body, Body]


@dataclass(frozen=True, slots=True)
class Bytes:
    """Two integers of 8 bits in the bits of `mask` of each half of a word, of the second half `apart` bits further up;
    they are less than what is there by `offset`. `raised`: C of them as fractions, where that is one step."""

    text: str
    mask: int = BYTE
    offset: int = 0
    apart: int = 0
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Spells words of two elements. `words_of` gives a row of registers; `in_words` are those whose bytes are words,
    `carrying` those that hold 16 bits as they are in memory."""

    values: Values
    words_of: Callable[[str, tuple[Expr, ...]], str]
    in_words: frozenset[str]
    carrying: frozenset[str]
    in_registers: Callable[[str], bool]

    def word(self, two: Two) -> str:
        """C of a word of two expressions that differ in integers alone; empty where they are computed one by one."""
        if not _are(two, lambda x: x.dtype.name == "fp16"):
            return ""
        if _are(two, lambda x: isinstance(x, Read) and x.tensor in self.carrying):
            return f"word_of({', '.join(self.values.stored(x, x.dtype) for x in two)})"
        inner = two if _sides(two, "mul") is not None else _inside(two, "cast")
        if inner is None or not _are(inner, lambda x: x.dtype.name in FLOATS):
            return ""
        factors = _sides(inner, "mul")
        if factors is None:
            return self.exact(inner)
        left, right = map(self.exact, factors)
        return f"product_of_pairs({left}, {right})" if left and right else ""

    def exact(self, two: Two) -> str:
        """C of a word of two values of floats that are numbers of fp16; empty where that is not known."""
        inner = _inside(two, "cast")
        if inner is not None and _are(inner, lambda x: x.dtype.name == "fp16"):
            return f"pair_of_fp16({', '.join(map(self.values.value, inner))})"
        if _are(two, lambda x: isinstance(x, Read) and x.dtype.name == "fp16"):
            return f"pair_of_fp16({', '.join(map(self.values.value, two))})"
        sides = _sides(two, "sub")
        if sides is not None:  # of numbers that were integers
            whole = (_inside(sides[0], "cast"), _inside(sides[1], "cast"))
            return self._difference(whole[0], whole[1], sides[1])
        return self.whole(inner) if inner is not None and _are(inner, lambda x: x.dtype.is_integer) else ""

    def whole(self, two: Two) -> str:
        """C of a word of two integers as numbers of fp16; empty where that is not known."""
        found = self.bytes(two)
        if found is not None:
            return self._less(found, 0)
        sides = _sides(two, "sub")
        is_signed = _are(two, lambda x: x.dtype.name == "i32")  # no difference of bytes wraps
        return self._difference(sides[0], sides[1], sides[1]) if sides is not None and is_signed else ""

    def _difference(self, one: Two | None, other: Two | None, number: Two) -> str:
        """C of the difference of two pairs of integers, or of integers and a number."""
        left, right = self.bytes(one), self.bytes(other)
        if left is None:
            return ""
        if right is None:
            is_one = isinstance(number[0], Literal) and number[0] == number[1]
            return self._less(left, number[0].value) if is_one else ""
        # the second is made once for all that it is taken from, so that it is what is nearer to the first
        apart = right.offset - left.offset
        if abs(apart) > RAISED // 2:
            return ""
        less = (apart, apart + (RAISED >> right.apart) - (RAISED >> left.apart))
        taken = _raised(right) if less == (0, 0) else f"difference_of_pairs({_raised(right)}, {_pair(*less)})"
        return f"difference_of_pairs({_raised(left)}, {taken})"

    def _less(self, found: Bytes, number: float) -> str:
        """C of integers less a number; empty where the difference may be no number of fp16."""
        less = found.offset + number
        if number != int(number) or not -RAISED <= less <= RAISED or max(abs(less), abs(found.mask - less)) > MOST:
            return ""
        return _less(found, less)

    def bytes(self, two: Two | None) -> Bytes | None:
        """Where two integers of 8 bits are; None of others."""
        if two is not None and _are(two, lambda x: x.dtype.name in WIDE):
            return self._of_words(two)
        if two is None or not _are(two, lambda x: x.dtype.name in BYTES):
            return None
        assembled = f"two_bytes({', '.join(map(self.values.value, two))})"
        return self._masked(two) or self._read(two) or _of_bytes(assembled, two[0].dtype)

    def _masked(self, two: Two) -> Bytes | None:
        """Some bits of bytes that are read: of one byte, or the same bits of neighbours."""
        masked = _sides(two, "and")
        number = masked[1][0] if masked is not None else None
        if number is not None and (not isinstance(number, Literal) or number != masked[1][1]):
            return None  # bits that are known when the kernel runs
        mask = number.value if number is not None else BYTE
        inner = masked[0] if masked is not None else two
        shifted = _sides(inner, "shr")
        read = self._read(shifted[0] if shifted is not None else inner)
        if read is None or read.offset or not 0 <= mask <= BYTE:
            return None
        if shifted is None:
            return Bytes(read.text, mask) if masked is not None else None
        found = [narrow(amount, self._range) for amount in shifted[1]]
        if None in found:
            return None
        (first, low), (second, high) = found
        numbers = [_number_of(one) for one in (first, second)]
        apart = (numbers[1] - numbers[0]).constant if None not in numbers else None
        if apart is None or apart < 0 or low.low < 0 or high.high > 8 - int(mask).bit_length():
            return None
        text = read.text if low.high == 0 else f"({read.text} >> {self.values.value(first)})"
        return Bytes(text, mask, apart=apart)

    def _of_words(self, two: Two) -> Bytes | None:
        """Some bits of words that are read, perhaps with a number added."""
        sums = _sides(two, "add")
        if sums is not None:
            number, found = sums[1][0], self._of_words(sums[0])
            is_one = isinstance(number, Literal) and number == sums[1][1] and abs(number.value) <= BYTE
            return replace(found, offset=found.offset - int(number.value)) if found is not None and is_one else None
        masked = _sides(two, "and")
        number = masked[1][0] if masked is not None else None
        if not isinstance(number, Literal) or number != masked[1][1] or number.value not in MASKS:
            return None
        bits = int(number.value).bit_length()
        shifted = _sides(masked[0], "shr")
        reads = shifted[0] if shifted is not None else masked[0]
        if not _are(reads, lambda x: isinstance(x, Read) and self.in_registers(x.tensor) and x.dtype.bytes == WORD):
            return None
        found = [narrow(amount, self._range) for amount in shifted[1]] if shifted is not None else [NOTHING, NOTHING]
        if None in found or any(one.low < 0 or one.high > 8 * WORD - bits for _, one in found):
            return None
        first, second = (_number_of(one) for one, _ in found)
        apart = (second - first).constant if first is not None and second is not None else None
        if apart is None or not is_multiple(first, bits):
            return None
        at, words = self.values.integers.c(first, 0), [f"(unsigned int){self.values.stored(x, x.dtype)}" for x in reads]
        if reads[0].index == reads[1].index and reads[0].tensor == reads[1].tensor:
            is_inside = apart in (0, bits) and 2 * bits <= 8 and is_multiple(first, bits + apart)
            return Bytes(f"byte_twice({words[0]}, {at})", int(number.value), apart=apart) if is_inside else None
        return Bytes(f"halves_of({', '.join(words)}, {at})", int(number.value)) if apart == 0 else None

    def _range(self, number: Expr) -> Interval:
        """The range of an integer; that of a remainder is known by its divisor."""
        whole = self.values.integers.interval(number)
        for found in remainders(number):
            factor, divisor = found.factor.constant, found.divisor.constant
            if factor and divisor and factor > 0:
                part = Interval(0, factor * (divisor - 1)) + self._range(found.rest)
                whole = Interval(_known(max, whole.low, part.low), _known(min, whole.high, part.high))
        return whole

    def _read(self, two: Two) -> Bytes | None:
        """One byte or two neighbours of registers that are words."""
        one, other = two
        if not _are(two, lambda x: isinstance(x, Read) and x.tensor in self.in_words) or one.tensor != other.tensor:
            return None
        *rows, first = one.index
        row, at = self.words_of(one.tensor, tuple(rows)), self.values.integers.c(first, 0)
        if other.index == one.index:
            return _of_bytes(f"bytes_of({row}, {at}, {at}, 0)", one.dtype)
        if other.index != (*rows, first + 1) or not is_multiple(first, 2):
            return None
        text = "bytes_of({}, {}, {}, {})"
        after = self.values.integers.c(first + 1, 0)
        low, raised = (text.format(row, at, after, above) for above in ("0", f"0x{RAISED_BYTE:02x}"))
        return _of_bytes(low, one.dtype, raised)


def in_words(kernel: nodes.Kernel) -> frozenset[str]:
    """Registers of bytes that are filled by whole words of memory, and that a computed operand takes in pairs."""
    found = {
        s.name
        for s in statements(kernel.body)
        if isinstance(s, nodes.Reg) and not s.kind and s.ring == 1 and s.type.dtype.name in BYTES
        if s.init is None or s.is_zeroed
    }
    if not found:
        return frozenset()
    read: set[str] = set()
    for s in statements(kernel.body):
        if isinstance(s, nodes.Each):
            read |= {
                n.tensor for x in s.body if isinstance(x, nodes.Assign) for n in walk(x.value) if isinstance(n, Read)
            }
        elif isinstance(s, nodes.Assign) and s.to.name in found and not _fills_words(s):
            found.discard(s.to.name)
    return frozenset(found & read)


def _fills_words(s: nodes.Assign) -> bool:
    """Whether a statement fills whole words, with neighbours of a tensor."""
    if not isinstance(s.value, Read) or len(s.over) != 1 or s.vector % WORD:
        return False
    ((name, _),) = s.over
    return is_multiple(s.to.index[-1] - name, WORD) and name not in (s.to.index[-1] - name).names()


def _known(better: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    return better(one, other) if one is not None and other is not None else one if other is None else other


def _number_of(body: Body) -> Expr | None:
    """What an integer body computes, where it is sums and multiples of integers; else None."""
    if isinstance(body, Index | Literal):
        return body.expr if isinstance(body, Index) else Expr.of(int(body.value))
    if isinstance(body, Binary) and body.op in QUOTIENTS and isinstance(body.right, Literal):
        found = _number_of(body.left)
        return QUOTIENTS[body.op](found, int(body.right.value)) if found is not None and body.right.value > 0 else None
    if not isinstance(body, Binary) or body.op not in NUMBERS:
        return None
    left, right = _number_of(body.left), _number_of(body.right)
    return NUMBERS[body.op](left, right) if left is not None and right is not None else None


def _of_bytes(text: str, dtype: DType, raised: str = "") -> Bytes:
    """Bytes of a dtype: those of signed integers are 128 more here."""
    if dtype.kind != "i":
        return Bytes(text, raised=raised)
    return Bytes(_moved(text), BYTE, 128, raised=_moved(raised) if raised else "")


def _moved(text: str) -> str:
    return f"({text} ^ 0x00800080u)"


def _raised(found: Bytes) -> str:
    mask = f"0x{found.mask << found.apart:04x}{found.mask:04x}u"
    return found.raised or f"raised_pair({found.text}, {mask}, {_raised_by(found, 0)})"


def _less(found: Bytes, less: float) -> str:
    """C of two integers less a number."""
    return f"difference_of_pairs({_raised(found)}, {_raised_by(found, less)})"


def _raised_by(found: Bytes, more: float) -> str:
    return _pair(RAISED + more, (RAISED >> found.apart) + more)


def _pair(low: float, high: float) -> str:
    return f"0x{_bits(high):04x}{_bits(low):04x}u"


def _are(two: Two, holds: Callable[[Body], bool]) -> bool:
    return all(map(holds, two))


def _inside(two: Two, op: str) -> Two | None:
    """What an op of one operand is applied to, of both."""
    return (two[0].x, two[1].x) if _are(two, lambda x: isinstance(x, Unary) and x.op == op) else None


def _sides(two: Two, op: str) -> tuple[Two, Two] | None:
    """The left operands of an op, and the right ones."""
    if not _are(two, lambda x: isinstance(x, Binary) and x.op == op):
        return None
    return (two[0].left, two[1].left), (two[0].right, two[1].right)


def _bits(number: float) -> int:
    return struct.unpack("H", struct.pack("e", number))[0]
