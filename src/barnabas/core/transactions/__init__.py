"""Transactions: the decisions of their coordinator, and the state that its records yield.

For the runtime: `transactions.Transactions` is the replicated state, `decision` the result of a decision. A producer
takes over its transactional id (`initialising`), adds partitions (`partitions`) and ends the transaction (`ending`),
which is prepared, then written to every partition as a marker, then complete. `expiring` has the timeouts, `listing`
the administration.
"""
