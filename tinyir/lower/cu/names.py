"""Names of the model as C identifiers: as they are where C allows it, so that grep finds them, else changed and kept
apart; and in comments. Names at file scope that C and CUDA have given away are taken: a kernel called `norm` would be
another overload of their `norm`, which `extern "C"` forbids.

Local names are free to hide them. Also the names with an f or l behind them (`remainderf`) are theirs. Names with an
underscore in them are left out: they are either marked as the implementation's or so long that no model says them
(`canonicalize_file_name`).
"""

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


_WORDS = """
a64l abort accept access acos acosh acospi alloca arc4random asctime asin asinh asinpi asprintf atan atan2 atanh
atanpi atexit atof atoi atol bcmp bcopy bind brk bsearch bzero calloc canonicalize cbrt clearenv clearerr clock close
compoundn connect copysign cosh cospi ctermid ctime cuserid daddl ddivl dfmal difftime div dmull dprintf drand48 drem
dsqrtl dsubl dup dysize ecvt erand48 erfc erfcinv erfcx erfinv exit exp10m1 exp2m1 expm1 fadd fclose fcloseall fcvt
fdim fdiv fdivide fdopen feof ferror fflush ffma ffs fgetc fgetpos fgets fileno finite flockfile fma fmax fmaximum
fmaxmag fmemopen fmin fminimum fminmag fmul fopen fopencookie fork fprintf fputc fputs fread freopen frexp fromfp
fromfpx fscanf fseek fseeko fsetpos fsqrt fsub ftell ftello ftrylockfile funlockfile fwrite gamma gcvt getc getchar
getdate getdelim getenv getline getloadavg getpayload getpt getsubopt getw gmtime grantpt hypot ilogb index initstate
isalnum isalpha isascii isblank iscntrl isctype isdigit isgraph isinff isinfl islower isnanf isnanl isprint ispunct
isspace isupper isxdigit jrand48 kill l64a labs lcong48 ldexp ldiv lgamma link listen llabs lldiv llmax llmin llogb
llrint llround localtime log10 log10p1 log1p log2p1 logb lrand48 lrint lround mblen mbstowcs mbtowc memccpy memcmp
memcpy memfrob memmem memmove mempcpy memset mkdtemp mkostemp mkostemps mkstemp mkstemps mktemp mktime modf mrand48
nan nanosleep nearbyint nextafter nextdown nexttoward nextup norm norm3d norm4d normcdf normcdfinv nrand48 open pause
pclose perror pipe popen pown powr pselect ptsname putc putchar putenv puts putw qecvt qfcvt qgcvt qsort rand random
rcbrt read realloc reallocarray realpath recv remainder remove remquo rename renameat renameat2 rewind rhypot rindex
rnorm rnorm3d rnorm4d rootn roundeven rpmatch sbrk scalb scalbln scalbn scanf seed48 select send setbuf setbuffer
setenv setlinebuf setpayload setpayloadsig setstate setvbuf significand sincos sincospi sinh sinpi sleep snprintf
sprintf srand srand48 srandom sscanf stpcpy stpncpy strcasecmp strcat strcmp strcoll strcpy strcspn strdup strerror
strfromd strfromf strfroml strfry strftime strlen strncasecmp strncat strncmp strncpy strndup strnlen strptime strsep
strsignal strspn strtod strtof strtok strtol strtold strtoq strtoul strtouq strverscmp strxfrm system tanpi tempnam
tgamma time timegm timelocal tmpfile tmpnam toascii tolower totalorder totalordermag toupper tzset ufromfp ufromfpx
uint3 ullmax ullmin umax umin ungetc unlink unlockpt unsetenv valloc vasprintf vdprintf vfprintf vfscanf vprintf
vscanf vsnprintf vsprintf vsscanf wait wcstombs wctomb write
""".split()

LIBRARY = frozenset(word + suffix for word in _WORDS for suffix in ("", "f", "l"))
