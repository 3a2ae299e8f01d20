"""A model and its attention: loading, words, the hook, measures, observers, the one loop."""
