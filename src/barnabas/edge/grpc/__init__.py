"""The gRPC edge: `barnabas.v1.BusService`, on the same verbs as the Kafka edge. See docs/grpc.md.

`serving` owns the server, `calls` what every call goes through (who calls, what a refusal becomes); `producing`,
`consuming`, `topics`, `watching` and `single` serve the calls. `routing` finds who has a partition or a group, and asks
this node's services or another broker. What decides and awaits nothing: `statuses`, `encoding`, `decoding`, `window`,
`options`, `tokens`.

Nothing of it is imported unless `grpc.listener` is set.
"""
