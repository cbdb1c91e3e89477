"""Raft in Kafka's manner (KRaft) for the cluster's metadata log: a state machine without clock, disk or network.

`node.RaftNode` is all that a driver calls. It takes messages, the time, what the disk has done and drawn numbers, and
returns an `output.Output`: a state to persist, operations on the log, messages to send, and how far the log is
committed. It holds no records: it knows offsets, epochs, snapshots and voters.

A leader is elected for an epoch by a majority of the voters. It writes, and all others pull: a fetch from offset N says
that everything below N is on the follower's disk. What a majority has on disk is committed.

    Unattached   no leader known            -- election timeout --> Prospective
    Prospective  asks: would I be elected?  -- majority would --> Candidate, in the next epoch
                                            -- majority would not, or timeout --> Follower or Unattached, as before
    Candidate    asks for votes             -- majority of votes --> Leader
                                            -- timeout --> Prospective
    Follower     fetches from the leader    -- fetch timeout --> Prospective, in the same epoch
    Leader       appends, counts, commits   -- no majority fetches; removed; asked to --> Resigned
    Resigned     tells the others           -- election timeout --> Unattached, in the next epoch
    any          hears of a newer epoch     --> Follower of its leader, or Unattached if none is known

Observers, which are not voters, are Unattached or Follower and have no timeouts. After a restart a leader is Resigned,
a candidate Candidate, a follower Follower; a sole voter leads at once.

`voting` elects, `leading` and `following` replicate, `snapshots` and `membership` are what they are called;
`transitions` goes from role to role, and `state` holds it all, with `log_view`, `voters` and `requests` for its parts.

Stricter than Kafka: the leader's own records count when they are synced, as everybody else's; a vote that is asked for
again is given again only if the log is still long enough, for a restart may have cost the candidate records; a leader
that has said that it leaves is no reason any more to deny others a pre-vote; a voter that joins must have all that is
committed.
"""
