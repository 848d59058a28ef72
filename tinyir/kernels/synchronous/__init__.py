"""A contraction on CUDA cores, any architecture, any maps: tiles in shared memory between two barriers, micro tiles of
accumulators (seed 002 section 6)."""
