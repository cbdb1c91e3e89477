"""Measurements, each beside the limit it is held to, taken in the same run. Run with ``make bench``."""
