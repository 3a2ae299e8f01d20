"""Questions put to attention: surface patterns, dependency accuracy, and their analyses."""
