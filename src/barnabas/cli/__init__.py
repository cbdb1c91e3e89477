"""The ``barnabas`` command: reads arguments, calls what does the work, prints. It decides nothing."""
