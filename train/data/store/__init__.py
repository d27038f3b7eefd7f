"""Data sets on disk: written whole, checked, read as maps, exported."""
