"""``barnabas serve --processes N``: several nodes on one machine, supervised as one.

One Python process uses one core. `plan` decides what each process is: its id, its addresses, its data; `supervisor`
starts the processes, starts one again that dies, and stops them all; `child` is what runs in each of them.
"""
