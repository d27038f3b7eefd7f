"""Documents -> segments -> tokens and marks -> shards, in parts that survive a kill.

A finished part is a folder with a marker. Engines (local, Slurm, Ray) make the missing parts with
`parts.make_part`, and `merge` joins them in order.
"""
