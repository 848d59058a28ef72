// 16-bit floats as bits, rounded as the GPU's cvt.rn does: to nearest, ties to even, every NaN to the canonical one.
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

inline float half_to_float(uint16_t half) {
  // The exponent is moved by a multiplication with 2^112, which makes subnormals right without a branch.
  uint32_t magnitude = bits_as<uint32_t>(bits_as<float>(uint32_t(half & 0x7fff) << 13) * 0x1p112f);
  if ((half & 0x7c00) == 0x7c00) magnitude |= 0x7f800000;
  return bits_as<float>(magnitude | uint32_t(half & 0x8000) << 16);
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

}  // namespace tinyir_sim
