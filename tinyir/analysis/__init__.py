"""Poly Core: what the maps of a program imply (dependence, contraction, composition, proofs), and what a plan of it
costs on a card."""
