"""Attention: two contractions with work on rows between them, as one kernel that never has a whole row.

The rule
--------
Two regions, joined by a value that the first hands to the second, compute, for rows r and columns n,

    S[r, n]   sum over d of Q[r, d] * K[n, d]
    X[r, n]   any work on one score: scale, bias, masks, caps, what data choose, random numbers
    M[r]      the greatest X along n
    E[r, n]   exp2(c * (X - M)) with c > 0, or exp2(X) itself
    W[r, n]   E, or what is linear in it: a mask, a factor; Z[r] = sum over n of W
    F[r]      any other maximum, minimum or sum along n of work on one score
    P[r, n]   a(n, r) * E[r, n] * h[r], with a of one element and h of the row
    O[r, e]   sum over n of P[r, n] * V[n, e], and any work on one element

It is read off the maps and the algebra of the two regions. `numbering` gives expressions that are equal one number;
`weights` walks from P back to E, and takes each op for what it is: work on one weight, or a number of the row; `match`
puts the kernel together. No name and no order of ops is asked.

Its proof
---------
Sums in exact arithmetic. All of P is linear in E, so O[r, e] = h[r] * sum over n of a(n, r) * E[r, n] * V[n, e]: the
division may follow the second sum. Let M' be the greatest X of the columns walked so far, and A' and Z' the sums of
a*E*V and W under M' instead of M. E under M'' is E under M' times exp2(c * (M' - M'')), whatever n: when the maximum
grows from M' to M'', A' and Z' are scaled by that number, and at the end M' = M. So n is walked once (Milakov and
Gimelshein 2018; Rabe and Staats 2021; Dao et al. 2022). Without M nothing is scaled, and the kernel overflows where the
text does. F are folds of their own.

Reassociations: the sums along n run in tiles; h comes after the second sum; roundings to halves between the two sums
are left out; X times numbers, less M times numbers, is one linear form.

What is not a number
-----------------
A row whose X are all -inf has M = -inf. The text's E is NaN there, and Z and P with it, unless it subtracts another
number from such a row (`is_guarded`), which makes E and Z 0. The kernel always subtracts 0 from it, so that tiles that
are masked whole change nothing; its Z is 0 and O = 0 / 0, which is NaN, as the text has it; where the text uses Z
otherwise, Z is NaN for such a row. A NaN or +inf among the X of a row makes M, Z and all of the row's P NaN, in both.

A guard, `P where P is a number else 0`, is a condition on the row: P is E / Z times finite numbers. With M, Z is NaN,
or 0 where `is_guarded`, exactly when P is NaN for all n, or else at least 1 and finite, and so is P. Without M, Z may
also be inf, when P is NaN or 0 for each n, and the guard leaves 0. So the row is 0 unless 0 < Z < inf. What V has under
a weight of 0 is unspecified if it is not a number.
"""

from .masks import masks_of, tile_is_touched
from .match import LONE_ROW, WIDEST, Streaming, streaming_of, two_regions

__all__ = ["LONE_ROW", "WIDEST", "Streaming", "masks_of", "streaming_of", "tile_is_touched", "two_regions"]
