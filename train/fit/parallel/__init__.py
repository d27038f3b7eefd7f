"""Training on many devices: sharded models and checkpoints, and rows that several devices share."""
