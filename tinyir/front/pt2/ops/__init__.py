"""The families of ATen ops."""

from . import (
    attention,
    complex,
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
    "complex",
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
