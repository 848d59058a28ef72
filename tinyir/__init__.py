"""tinyir: a deep-learning compiler as Unix filters over textual IRs.

The rooms, in the order a model walks through them: `front` reads a model, `lower` carries it from one language to the next,
`runtime` runs the result. What each language is stands in `ir`; what every room shares stands in `kit`.
"""

__version__ = "1.0.0"
