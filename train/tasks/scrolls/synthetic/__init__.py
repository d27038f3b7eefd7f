"""Tasks in the shape of SCROLLS whose answers are mechanical, for machines without its data."""
