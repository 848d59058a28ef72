"""Poly Core: what the maps of a program imply. Dependence, contraction, composition, proofs."""
