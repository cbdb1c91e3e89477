"""`barnabas cluster`: a cluster of processes on this machine, and a look at any other.

One module for each kind of command, so that each loads only what it needs: `commands` has them all, `status` describes.
"""
