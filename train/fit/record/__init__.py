"""The record of a run: its folder, who may write there, its sessions, and its state at a glance.

Nothing here loads torch, so that `bipe status` is instant.
"""
