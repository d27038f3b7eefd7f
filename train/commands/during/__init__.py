"""Commands about runs while they go on."""
