"""Where documents come from: files, the hub, generated and installed text."""
