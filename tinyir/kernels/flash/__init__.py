"""Algo `streaming_softmax`: two contractions with a softmax between them on sm90's tensor cores, where `streaming` has
CUDA cores.

The copy engine fetches 16-bit factors into rings, warpgroups multiply: the scores stay in registers, become weights
there, and are the left operand of the second product. It wins wherever the maps let the copy engine fetch what is read,
depth and width are at most 256, and there are rows enough to fill the card.

Fields: `tile` [64 rows for each consumer, columns of scores, depth], `stages` (blocks of keys and values on their way),
`consumers`, `regs`, `bind`, `persistent`, `order group` (heads that run together), `cache`, `load`, `store` (`tma` or
`global`), `assume`, `predicate`, `async ... overlap epilogue` (the next query is fetched while a tile ends), `edge`.
"""
