// CPU twins of the PTX wrappers, which an emitted text declares for all and defines under `#ifndef TINYIR_SIM`. Read after the text.
// A wrapper's types are the text's own; TINYIR_HAS_<type> says that the text has one.
#pragma once
#include "numbers.hpp"

#ifdef TINYIR_HAS_fp16
float float_of_fp16(fp16 x) { return tinyir_sim::half_to_float(x.bits); }
fp16 fp16_of_float(float x) { return {tinyir_sim::float_to_half(x)}; }
#endif

#ifdef TINYIR_HAS_bf16
bf16 bf16_of_float(float x) { return {tinyir_sim::float_to_bfloat(x)}; }
#endif

float max_nan_of(float a, float b) { return a > b || a != a ? a : b; }
float min_nan_of(float a, float b) { return a < b || a != a ? a : b; }
