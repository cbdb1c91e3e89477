"""Clusters of real processes on this machine: what `barnabas cluster` and `barnabas.cluster()` are made of.

`directory` is what is on disk, `processes` finds and signals processes safely, `starting` starts them (`keeper` ends
them with whoever asked), `local` puts them together, `fixture` is the context manager for people's own tests.
"""
