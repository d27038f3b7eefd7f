"""What a training shows and records while it runs: metrics.csv, progress, loggers."""
