"""Groups of consumers and what they have committed: decisions, and the state that their records make.

For the runtime: `groups.Groups` is what is replicated, `decision` the contract, `classic` and `offsets` what clients
of the classic protocol ask, `consumer` (KIP-848) what those of the new one ask, `listing` what administrators ask.
"""
