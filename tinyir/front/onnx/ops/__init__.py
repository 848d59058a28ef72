"""ONNX ops by family: what each means in ops of the front ends. The table is `front.onnx.table`."""

from . import (  # noqa: F401  (each file puts its rows into the table)
    attention,
    control,
    elementwise,
    folding,
    fused,
    grid,
    indexing,
    movement,
    normalization,
    packed,
    quantized,
    quantized_operators,
    recurrent,
    reduction,
    sampling,
    shapes,
    spectral,
    windows,
)
