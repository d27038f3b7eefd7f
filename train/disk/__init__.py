"""File operations that all of `train` shares: whole files, checksums, manifests and locks."""
