"""What activations are made of, by the units for exponentials and reciprocals. Rows of `target.intrinsics`."""

from __future__ import annotations

# Of a GELU that is rounded to a dtype: what is said of its error, and a polynomial in |x| for -log2 of
# erfc(|x|/sqrt(2))/2, the highest power last, whose greatest error is the least that there is at this degree.
GELU_FOR = (
    (
        "fp16",
        "within 0.17 of an ulp of fp16",
        (1.0001273, 1.1491462, 0.46415889, 0.048217326, -0.0058227054, 0.00032012776),
    ),
    (
        "bf16",
        "within 0.14 of an ulp of bf16, of 2^-115 where it is less",
        (1.0007672, 1.1430653, 0.47275504, 0.044507537, -0.0054807404, 0.00042156727, -1.8007501e-05, 3.2402767e-07),
    ),
)


def _gelu_for(dtype: str, error: str, powers: tuple[float, ...]) -> tuple[str, str]:
    """x/2 * (1 + erf(x/sqrt(2))) for this dtype, with one exponential and no division."""
    lines = [f"float p = fmaf({powers[-1]:.8g}f, size, {powers[-2]:.8g}f);"]
    lines += [f"p = fmaf(p, size, {c:.8g}f);" for c in powers[-3::-1]]
    text = "\n  ".join(
        [
            "const float size = fabsf(fminf(x, 64.0f));",
            *lines,
            "return fmaf(-size, exp2_approx(-p), max_nan_of(x, 0.0f));",
        ]
    )
    return (
        f"gelu_for_{dtype}",
        f"""\
// x/2 * (1 + erf(x/sqrt(2))) {error}: max(x, 0) - |x| times 2^p, p a polynomial in |x| near log2 of half of erfc(|x|/sqrt(2)).
__device__ __forceinline__ float gelu_for_{dtype}(float x) {{
  {text}
}}""",  # noqa: E501
    )


ROWS = (
    (
        "one_plus_erf",
        """\
// 1 + erf(x) within 2e-7, and below 0 within 2e-6 of itself where it is more than 2^-100: erfc(|x|) is exp(-x^2) times a polynomial in 1/(1 + 0.39 |x|).
__device__ __forceinline__ float one_plus_erf(float x) {
  const float t = recip_approx(fmaf(0.39f, fabsf(x), 1.0f));
  float p = fmaf(-0.22753769f, t, 0.8866667f);
  p = fmaf(p, t, -0.635404f);
  p = fmaf(p, t, 0.6495624f);
  p = fmaf(p, t, 0.09138721f);
  p = fmaf(p, t, 0.2353254f) * t;
  const float q = p * exp2_approx(-1.442695f * x * x);
  return x < 0.0f ? q : 2.0f - q;
}""",  # noqa: E501
    ),
    (
        "gelu_of",
        """\
// x/2 * (1 + erf(x/sqrt(2))) as max(x, 0) - |x| times half of erfc(|x|/sqrt(2)), by the polynomial of one_plus_erf.
__device__ __forceinline__ float gelu_of(float x) {
  const float size = fabsf(fminf(x, 64.0f)), t = recip_approx(fmaf(0.27577165f, size, 1.0f));
  float p = fmaf(-0.11376884f, t, 0.44333335f);
  p = fmaf(p, t, -0.317702f);
  p = fmaf(p, t, 0.3247812f);
  p = fmaf(p, t, 0.045693655f);
  p = fmaf(p, t, 0.1176627f) * t;
  return fmaf(-size, p * exp2_approx(-0.72134754f * size * size), max_nan_of(x, 0.0f));
}""",
    ),
    *(_gelu_for(*row) for row in GELU_FOR),
    (
        "logistic_of_exp2",
        "__device__ __forceinline__ float logistic_of_exp2(float x) { return recip_approx(1.0f + exp2_approx(x)); }",
    ),
)
