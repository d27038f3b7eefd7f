"""Measurements behind the numbers in README and docs: `python -m benchmarks.NAME --help`."""
