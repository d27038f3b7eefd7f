"""Segmenters of documents of several kinds of text (`mixed`), and their choice (`router`)."""
