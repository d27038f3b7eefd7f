"""What is measured on a trained model: perplexity against length, and retrieval."""
