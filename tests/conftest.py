"""Shared fixtures. Hypothesis runs the same examples on every machine, and prints no timing complaints on busy ones."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tinyir", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("tinyir")
