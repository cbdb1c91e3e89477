"""Bytes to messages and back: frames, headers, version shaping. Knows no socket and decides nothing."""
