"""Documents of several kinds of text (`mixed`), and corpora of several kinds (`router`)."""
