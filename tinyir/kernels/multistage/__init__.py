"""A contraction on tensor cores by mma.sync, from sm80 on: a ring of tiles filled by cp.async, fragments by
ldmatrix."""
