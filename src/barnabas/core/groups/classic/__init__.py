"""Classic groups: members join, one of them assigns, each gets its assignment; any change makes all join again.

The machine of a group (`state.ClassicState`), and who moves it:

                         the first join
             EMPTY -----------------------> PREPARING_REBALANCE <-----------------------------+
               ^                              |        |                                      |
               |   nobody is left             |        | all have joined, or the join timer   |
               +------------------------------+        v                                      |
                                              COMPLETING_REBALANCE ---------------------------+
                                                       |        a join that changes something, |
                                                       |        a leave, the end of a session, |
                                                       |        the sync timer                 |
                                                       | the leader's SyncGroup                |
                                                       v                                      |
                                                     STABLE ----------------------------------+

Records are written where a generation is complete: on the way to STABLE, and to EMPTY. Everything between is soft: a
coordinator that loads the log finds the last complete generation.

    decisions   what clients ask, timers, failures: the way in
    join        who comes in, who takes the place of another, who must come again
    rebalance   begin, complete, assign: the arrows above
    state       a group as it is now, and who waits for what
    messages    requests, replies, settings
"""
