"""Documents -> cuts -> tokens and marks -> shards, in parts that survive a kill.

    ReadPart -> DropDuplicates -> FilterPart -> WritePart        one datatrove task per part

The same pipeline runs here, by Slurm or by Ray. A part that is done is a folder of its own with a
marker; engines run those that are missing, and `merge` puts them together in order.
"""
