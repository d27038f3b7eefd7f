"""What is asked before a command runs: its plan, and whether this machine can do it."""
