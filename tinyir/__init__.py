"""tinyir: a deep-learning compiler as Unix filters over textual IRs.

The rooms, in the order a model walks through them: `front` reads a model, `lower` carries it from one language to the next,
`runtime` runs the result. What each language is stands in `ir`; what every room shares stands in `kit`.
"""

from typing import Any

__version__ = "1.0.0"


def compile(model: Any, **options: Any) -> Any:
    """A Python callable from a model: a path, a text of any front end or stage, or a module of `tinyir.ir`. See `tinyir.api.compile`."""
    from .api import compile as compile_model  # here, so that a filter need not load it

    return compile_model(model, **options)
