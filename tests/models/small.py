"""Small networks of the known kinds, for tests that go through every stage."""

from __future__ import annotations

from collections.abc import Callable

from .bert import bert
from .gpt2 import gpt2
from .network import RandomModel
from .resnet import resnet50
from .vit import vit

SMALL: dict[str, Callable[..., RandomModel]] = {
    "resnet": lambda **k: resnet50(layers=(1, 2), width=8, size=32, classes=10, **k),
    "bert": lambda **k: bert(tokens=6, layers=2, hidden=16, heads=2, words=20, positions=8, **k),
    "gpt2": lambda **k: gpt2(tokens=6, layers=2, hidden=16, heads=2, words=20, positions=8, **k),
    "vit": lambda **k: vit(layers=2, size=16, patch=4, hidden=16, heads=2, classes=10, **k),
}
