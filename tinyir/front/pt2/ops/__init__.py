"""The families of ATen ops."""

from . import (
    attention,
    contraction,
    creation,
    elementwise,
    folding,
    indexing,
    movement,
    normalization,
    recurrent,
    reduction,
    windows,
)

__all__ = [
    "attention",
    "contraction",
    "creation",
    "elementwise",
    "folding",
    "indexing",
    "movement",
    "normalization",
    "recurrent",
    "reduction",
    "windows",
]
