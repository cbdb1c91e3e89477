"""The types of requests and answers, a module for each API, for the type checker: nothing imports them when run.

A request is what `wire.requests` reads: a Protocol with the fields of all versions that are served. A field that a
version does not have has the default that the protocol gives it (`wire.absent_fields`). An answer is what
`wire.responses` writes: a mapping from which any field may be left out. It has no throttle time, which `server` adds.

`make messages` writes them anew from kio's schemas.
"""
