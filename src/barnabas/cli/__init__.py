"""The ``barnabas`` command: parses arguments, calls the code that does the work, and prints. It decides nothing."""
