"""What comes after a training: the model in other hands."""
