"""One file per command: it takes the configuration apart and hands values down."""
