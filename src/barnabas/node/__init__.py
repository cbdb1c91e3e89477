"""The composition root: builds one node and runs it. Nothing but the command line and tests imports it.

`node` owns every task of a node, from its start to its stop; `building` makes its services; `neighbours` is how it
reaches the other nodes of its cluster.
"""

from barnabas.node.node import Node, check_data_dirs
from barnabas.node.ports import Ports
from barnabas.node.security import check_protected

__all__ = ["Node", "Ports", "check_data_dirs", "check_protected"]
