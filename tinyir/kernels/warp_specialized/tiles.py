"""Tiles of the output that are worth trying."""

from __future__ import annotations

# Rows and columns of a tile, warpgroups that share it, and the clusters worth trying: CTAs along the rows share B,
# along the columns A.
TILES = (
    (128, 256, 2, ((2, 1), (1, 1))),
    (256, 128, 2, ((1, 2), (1, 1))),
    (128, 192, 2, ((2, 1), (1, 1))),
    (192, 192, 3, ((2, 1), (1, 1))),
    (192, 128, 3, ((2, 1), (1, 1))),
    (256, 192, 2, ((1, 2), (1, 1))),
    (256, 160, 2, ((1, 2), (1, 1))),
    (256, 96, 2, ((1, 2), (1, 1))),
    (192, 160, 3, ((2, 1), (1, 1))),
    (192, 96, 3, ((2, 1), (1, 1))),
    (128, 224, 2, ((2, 1), (1, 1))),
    (128, 160, 2, ((2, 1), (1, 1))),
    (128, 144, 2, ((2, 1), (1, 1))),
    (128, 96, 2, ((1, 1),)),
    (128, 128, 2, ((2, 1), (1, 1))),
    (256, 64, 2, ((1, 1),)),
    (128, 64, 2, ((1, 1),)),
    (64, 256, 1, ((1, 1),)),
    (64, 128, 1, ((1, 1),)),
    (64, 64, 1, ((2, 1), (1, 2), (1, 1))),
)
# The same with the output's columns in place of a matrix product's rows: rows of a tile go in steps of 16, so that more
# shapes are whole waves.
SWAPPED_TILES = (
    (144, 256, 2, ((2, 1), (1, 1))),
    (160, 256, 2, ((2, 1), (1, 1))),
    (176, 256, 2, ((2, 1), (1, 1))),
    (112, 256, 2, ((2, 1), (1, 1))),
    (80, 256, 2, ((1, 1),)),
    (240, 128, 2, ((1, 2), (1, 1))),
    (224, 128, 2, ((1, 2), (1, 1))),
    (208, 128, 2, ((1, 2), (1, 1))),
    (192, 128, 2, ((1, 2), (1, 1))),
    (176, 128, 2, ((1, 2), (1, 1))),
    (160, 128, 2, ((1, 2), (1, 1))),
    (144, 128, 2, ((1, 1),)),
    (112, 128, 2, ((1, 1),)),
    (80, 128, 2, ((1, 1),)),
)
# Of two warpgroups that have every other tile: one ends its tile while the other multiplies.
IN_TURNS = (128, 128, 2, ((1, 1),))

__all__ = ["IN_TURNS", "SWAPPED_TILES", "TILES"]
