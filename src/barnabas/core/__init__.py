"""Decisions: values in, values out. Nothing here awaits, reads a clock, opens a file or logs."""
