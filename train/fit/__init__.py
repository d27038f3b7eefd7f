"""The training of a model, and the folder of a run."""
