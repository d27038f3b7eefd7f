"""Levels of other segmenters: which are kept, how long a segment may be, and given boundaries."""
