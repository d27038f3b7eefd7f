"""What everybody does on a disk, once: whole files, checksums, manifests, locks, redaction."""
