"""How the parts of a data set are made: one datatrove pipeline, run here, by Slurm or by Ray.

    ReadPart -> FilterPart -> WritePart        one datatrove task a part

A part that is done stands in its own folder with a marker; engines run those that are missing.
"""
