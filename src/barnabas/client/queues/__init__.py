"""Queues: the client's side of a share group, on our own connection since librdkafka cannot renew locks.

`locks`, `session` and `pace` decide and are pure. `membership` keeps the member in its group, `reader` fetches and
acknowledges, each in a thread of its own; `queue` is what users have.
"""
