"""Share groups (KIP-932): queues. Members share partitions, and acknowledge each record.

Three machines, each on a node of its own:

    the group            on the leader of its partition of `__consumer_offsets`: who is a member and fetches what
    the share partition  on the leader of the partition that is read: which record is with whom (`partition` has the
                         machine of a record)
    its state            on the leader of a partition of `__share_group_state`: what is left when that leader is gone

What they say to each other:

    group coordinator  -- initialize, delete, read summary -->  share coordinator
    partition leader   -- read once, then write            -->  share coordinator

    decisions            heartbeats, sessions, changes of topics; whose state there is
    assigning            who is to fetch what
    state, encoding      a group as the log has it, and its records in Kafka's bytes
    messages, describe   requests, replies, settings; what people see
    partition, window    the delivery of records; `backoff` is how long one waits for the next
    acknowledging        what members say of them
    persisted            the states of share partitions and the decisions about them: `state_encoding` is how they
                         are written
"""
