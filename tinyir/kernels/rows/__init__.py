"""Folds along rows: a team of threads for each row, which stays in registers or is read again in each pass."""
