"""Names at file scope that C and CUDA have given away: a kernel called `norm` would be another overload of their
`norm`, which `extern "C"` forbids.

Local names are free to hide them. Also the names with an f or l behind them (`remainderf`) are theirs. Names with an
underscore in them are left out: they are either marked as the implementation's or so long that no model says them
(`canonicalize_file_name`).
"""

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
