"""Playback on the CPU with NumPy: what a text means, in numbers."""
