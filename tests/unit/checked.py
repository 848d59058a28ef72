"""The checks that the pipeline makes of plan and gpu text, those of the families included."""

from __future__ import annotations

from tinyir.lower import language_of

check_plan = language_of("plan").check
check_gpu = language_of("gpu").check
