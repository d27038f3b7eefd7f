"""Text -> ids, and the character by which each token joins a segment."""
