"""Shards -> rows -> batches; the order is a pure function of one integer."""
