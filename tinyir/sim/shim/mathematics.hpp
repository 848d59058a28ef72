// The functions of <math.h> by the names that CUDA overloads for float and double. C++'s own header brings templates that take three times as long to
// read as all the rest, so C's header is read and the overloads are written here.
#pragma once
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // libstdc++'s math.h then is C's; a library that does not know the word gives its overloads itself
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS

#if !defined(_GLIBCXX_CMATH) && !defined(_LIBCPP_VERSION)
#define TINYIR_OF_ONE(name) \
  inline float name(float a) { return name##f(a); }
TINYIR_OF_ONE(acos)
TINYIR_OF_ONE(acosh)
TINYIR_OF_ONE(asin)
TINYIR_OF_ONE(asinh)
TINYIR_OF_ONE(atan)
TINYIR_OF_ONE(atanh)
TINYIR_OF_ONE(cbrt)
TINYIR_OF_ONE(ceil)
TINYIR_OF_ONE(cos)
TINYIR_OF_ONE(cosh)
TINYIR_OF_ONE(erf)
TINYIR_OF_ONE(erfc)
TINYIR_OF_ONE(exp)
TINYIR_OF_ONE(exp2)
TINYIR_OF_ONE(expm1)
TINYIR_OF_ONE(fabs)
TINYIR_OF_ONE(floor)
TINYIR_OF_ONE(lgamma)
TINYIR_OF_ONE(log)
TINYIR_OF_ONE(log10)
TINYIR_OF_ONE(log1p)
TINYIR_OF_ONE(log2)
TINYIR_OF_ONE(logb)
TINYIR_OF_ONE(nearbyint)
TINYIR_OF_ONE(rint)
TINYIR_OF_ONE(round)
TINYIR_OF_ONE(sin)
TINYIR_OF_ONE(sinh)
TINYIR_OF_ONE(sqrt)
TINYIR_OF_ONE(tan)
TINYIR_OF_ONE(tanh)
TINYIR_OF_ONE(tgamma)
TINYIR_OF_ONE(trunc)
#undef TINYIR_OF_ONE
#define TINYIR_OF_TWO(name) \
  inline float name(float a, float b) { return name##f(a, b); }
TINYIR_OF_TWO(atan2)
TINYIR_OF_TWO(copysign)
TINYIR_OF_TWO(fdim)
TINYIR_OF_TWO(fmax)
TINYIR_OF_TWO(fmin)
TINYIR_OF_TWO(fmod)
TINYIR_OF_TWO(hypot)
TINYIR_OF_TWO(nextafter)
TINYIR_OF_TWO(pow)
TINYIR_OF_TWO(remainder)
#undef TINYIR_OF_TWO
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline float ldexp(float a, int n) { return ldexpf(a, n); }
inline float scalbn(float a, int n) { return scalbnf(a, n); }
inline float frexp(float a, int* n) { return frexpf(a, n); }
inline float modf(float a, float* whole) { return modff(a, whole); }
inline float abs(float a) { return fabsf(a); }
inline double abs(double a) { return fabs(a); }
inline int abs(int a) { return a < 0 ? -a : a; }
inline long abs(long a) { return a < 0 ? -a : a; }
inline long long abs(long long a) { return a < 0 ? -a : a; }
#endif
