"""Tasks whose answers are right or wrong: arithmetic, and SCROLLS with what resembles it."""
