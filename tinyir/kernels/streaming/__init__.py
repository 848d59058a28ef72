"""Two contractions with a softmax between them on CUDA cores: rows are never whole (seed 001 section 15.3)."""
