"""What is asked before a command runs: whether this machine can do it."""
