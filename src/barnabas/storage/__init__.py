"""The log on disk: segments, indexes, recovery, retention, compaction. Reaches files only through `disk`."""
