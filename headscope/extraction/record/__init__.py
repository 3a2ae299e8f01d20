"""Attention kept on disk: written in whole shards, read one layer at a time, analysed again."""
