"""Documents -> segments -> tokens and marks -> shards, in parts that survive a kill.

A part that is done is a folder of its own with a marker. Engines (here, Slurm, Ray) make those that
are missing, each by `parts.make_part`, and `merge` puts them together in order.
"""
