"""Poly Core: what the later stages ask of a region. Dependences, families, work and cost; and the cards it runs on."""
