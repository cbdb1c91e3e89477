"""Consumer groups (KIP-848): the coordinator assigns, and each member moves at its own pace, by its heartbeats.

Three numbers drive a group. Each follows the one before it:

    group epoch      raised when a member or what it asks for changes, when topics do, when a session ends
    target epoch     the group epoch that the target was made for: a heartbeat brings it up (`draft.update_target`)
    member epoch     the target epoch that a member has come to (`reconcile`)

The machine of a member (`state.MemberState`), moved by its own heartbeats; each new target begins it anew:

                  it has more than its target         it says that it gave that up
        STABLE ----------------------------> UNREVOKED -------------------------+
          ^ |                                    | its rebalance timer          |
          | |                                    v                              |
          | |                                 removed                           |
          | |  what it is to have is still another's                            v
          | +---------------------------> UNRELEASED <--------------------------+ (or STABLE at once)
          +----------------------------------+
             the others have given it up

The state of the group follows from that (`describe.state_of`): EMPTY without members, ASSIGNING while the target is of
an older epoch, RECONCILING while a member is not STABLE in the target's epoch, else STABLE.

    decisions            heartbeats, timers, changes of topics: the way in
    classic_members      the same for members of the classic protocol that are in such a group
    draft                a decision in the making: the group as it will be, and the records that get it there
    reconcile            the arrows above; `assignment_epochs` says since when a member has what it has
    assignors            who is to have what: `placing`, `ranges`, `spreading`
    regexes              subscriptions by regular expression
    state, encoding      a group as the log has it, and its records in Kafka's bytes
    messages, describe   requests, replies, settings; what people see
"""
