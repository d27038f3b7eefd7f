"""Training, evaluation and reporting: what needs Lightning, Hydra or a data set."""
