"""Segmenters of conversations, whose coarser segments are turns."""
