"""What a training will need, told before it runs: model, work, memory, time, disk."""
