"""Figures of speed, each a ratio to a floor measured in the same run: ``make bench``, or ``python -m bench NAME``."""
