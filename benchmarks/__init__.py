"""Measurements beside what others take for the same, and beside what the machine allows: ``python -m benchmarks --help``."""
