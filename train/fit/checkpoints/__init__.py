"""Checkpoints: where they and trained models lie, how they are written whole, and how read."""
