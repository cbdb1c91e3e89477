"""What a partition replica knows of its log: leader epochs and producers. Pure state, no files."""
