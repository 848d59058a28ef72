"""Kernel families, each a folder that states what it knows once, and the parts that families share. `plain` is the
first to live here."""
