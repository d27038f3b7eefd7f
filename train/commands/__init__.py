"""One file per command: it takes the configuration apart and passes values on."""
