// Small floats as bits, widened and rounded as the GPU's cvt does: to nearest, ties to even, every NaN to the canonical one; and sums as its matrix
// units make them.
#pragma once
#include <stdint.h>
#include <string.h>

namespace tinyir_sim {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit pattern keeps its size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

inline float with_one_nan(float value) { return value != value ? bits_as<float>(uint32_t(0x7fffffff)) : value; }

inline float half_to_float(uint16_t half) {
  // The exponent is moved by a multiplication with 2^112, which makes subnormals right without a branch.
  uint32_t magnitude = bits_as<uint32_t>(bits_as<float>(uint32_t(half & 0x7fff) << 13) * 0x1p112f);
  if ((half & 0x7c00) == 0x7c00) magnitude |= 0x7f800000;
  return with_one_nan(bits_as<float>(magnitude | uint32_t(half & 0x8000) << 16));
}

inline uint16_t float_to_half(float value) {
  uint32_t bits = bits_as<uint32_t>(value), magnitude = bits & 0x7fffffff;
  uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x47800000) return uint16_t(sign | 0x7c00);  // 65536 and more
  if (magnitude < 0x38800000)                                  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
    return uint16_t(sign | (bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000));
  return uint16_t(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

inline float bfloat_to_float(uint16_t bits) { return bits_as<float>(uint32_t(bits) << 16); }

inline uint16_t float_to_bfloat(float value) {
  uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The kinds of factors of a matrix unit.
enum Factor { kHalf = 0, kBfloat = 1, kE4m3 = 2, kE5m2 = 3, kTf32 = 4 };

inline float byte_to_float(uint8_t bits, Factor kind) {
  if (kind == kE5m2) return half_to_float(uint16_t(bits << 8));
  if ((bits & 0x7f) == 0x7f) return bits_as<float>(uint32_t(0x7fc00000));
  return 256.0f * half_to_float(uint16_t((bits & 0x80) << 8 | (bits & 0x7f) << 7));  // the bits of x in fp16 mean x / 256
}

// TF32 is fp32 of 10 fraction bits: to nearest, ties away from zero (cvt.rna). A NaN keeps its sign and those bits and gets quiet, as on an H100.
inline uint32_t float_to_tf32(float value) {
  uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits | 0x400000) & 0xffffe000;
  return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000;
}

// As the copy engine rounds: to nearest, ties to even; infinities stay, and every NaN becomes the one of all ones, without a sign, as on an H200.
inline uint32_t float_to_tf32_even(float value) {
  uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffe000;
  return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

// A factor of TF32: the last 13 bits of a word are not looked at.
inline float tf32_part(uint32_t word) { return bits_as<float>(word & 0xffffe000); }

inline int exponent_of(double value) { return int(bits_as<uint64_t>(value) >> 52 & 0x7ff) - 1023; }

// The sum of terms as a matrix unit makes it: all are moved to the largest one's exponent, what is more than `bits` behind its point is cut off,
// and so is what the result has too much. The units keep some bits more than they promise; this keeps few.
inline float aligned_sum(const double* terms, int count, int bits) {
  double largest = 0, plain = 0;
  for (int i = 0; i < count; ++i) {
    plain += terms[i];
    largest = __builtin_fabs(terms[i]) > largest ? __builtin_fabs(terms[i]) : largest;
  }
  if (largest == 0 || __builtin_isinf(plain) || plain != plain) return with_one_nan(float(plain));
  double unit = __builtin_ldexp(1.0, exponent_of(largest) - bits);
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += int64_t(terms[i] / unit);
  double exact = double(sum) * unit;
  float rounded = float(exact);
  if (__builtin_isinf(rounded) || __builtin_fabs(double(rounded)) <= __builtin_fabs(exact)) return rounded;
  return bits_as<float>(bits_as<uint32_t>(rounded) - 1);  // one nearer to zero
}

}  // namespace tinyir_sim
