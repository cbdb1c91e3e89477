"""Transactions: what their coordinator decides, and the state that its records make.

For the runtime: `transactions.Transactions` is what is replicated, `decision` what a decision comes to. A producer
takes its transactional id (`initialising`), adds partitions (`partitions`) and ends the transaction (`ending`), which
is prepared, then written to every partition as a marker, then complete. `expiring` is what time does, `listing` what
administrators ask.
"""
