"""Data sets on disk: written whole, checked, mapped into memory, exported."""
