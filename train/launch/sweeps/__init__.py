"""Sweeps (-m) and searches: trials, composed and checked before the first one runs."""
