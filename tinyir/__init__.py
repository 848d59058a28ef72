"""tinyir: a deep-learning compiler as Unix filters over textual IRs.

    program = tinyir.compile("model.onnx")
    outputs = program(x)                    # NumPy arrays in and out, or arrays of any library on the GPU

`compile` gives a `Compiled` or raises `Refused`; `program.save(path)` keeps it, and `load(path)` starts it again. The
rooms, in the order a model walks through them: `front` reads a model, `lower` carries it from one language to the next,
`runtime` runs the result. `ir` says what each language is; what every room shares is in `kit`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Compiled as Compiled
    from .api import Refused as Refused
    from .api import compile as compile
    from .api import load as load

__version__ = "1.0.0"
__all__ = ["Compiled", "Refused", "compile", "load"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tinyir' has no attribute {name!r}")
    from . import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
