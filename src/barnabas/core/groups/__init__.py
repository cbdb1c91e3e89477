"""Groups of consumers and what they have committed: decisions, and the state that their records make.

A package for each protocol that members speak, `classic` and `consumer` (KIP-848), each with a map of its machine. What
is here belongs to a group whatever its members speak:

    records, encoding     what the log holds, and how; `old_encoding` is how earlier versions wrote it
    groups                the replicated state: `Groups`, which `apply` alone changes
    decision              timers, and what a decision is gathered in
    offsets, offset_access  committed offsets, and who may speak of them
    routing               which protocol's machine a request, a timer or a change of topics goes to: the way in
    migration             a group goes from one protocol to the other while its members are at work
    embedded, subscriptions  what consumers write into the opaque bytes of the classic protocol
    listing               what administrators ask
"""
