"""Documents -> segments -> tokens and marks -> shards, in parts that survive a kill."""
