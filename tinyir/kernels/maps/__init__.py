"""Each output element on its own, a few neighbours for each thread."""
