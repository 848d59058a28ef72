"""The hash of every text that the filters print, for the samples and for small networks: what must be the same in every
process, on every machine and by every Python.

    python -m tests.golden.texts [NAME ...]

Needs no package beside those that tinyir needs, so that any Python that has them can be asked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from tinyir import front
from tinyir.ir.pipeline import STAGES
from tinyir.lower import language_of, lower_to

from ..models.small import SMALL
from .journey import samples, source_of


def texts_of(name: str, source: str) -> Iterator[tuple[str, str]]:
    """Each text of a model, from its first to CUDA: what it is, and its hash."""
    module: Any = front.read(source)
    for stage in STAGES:
        module = module if stage == STAGES[0] else lower_to(stage, module, "sm90")
        yield f"{name}.{stage}", sha256(language_of(stage).show(module).encode()).hexdigest()


def sources() -> dict[str, str]:
    """The models, by name."""
    own = {sample.name: source_of(sample).read_text(encoding="utf-8") for sample in samples()}
    return own | {f"small-{name}": build().text for name, build in SMALL.items()}


def main() -> None:
    """Print a line for each text of the models that are named, or of all."""
    found = sources()
    for name in sys.argv[1:] or found:
        for text, digest in texts_of(name, found[name]):
            print(digest, text)


if __name__ == "__main__":
    main()
