"""A contraction of a few rows, bound by the bytes of the other operand: wide loads, sums in registers, folded over the
CTA."""
