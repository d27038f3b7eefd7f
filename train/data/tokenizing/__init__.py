"""Text -> ids, and for each token the character that decides its segment."""
