"""``python -m barnabas.testing.metrics_page`` writes docs/metrics.md: from a node with everything that can report."""

import sys
from typing import Final

from barnabas.core.errors import BarnabasError
from barnabas.edge.http.metrics_page import render_page
from barnabas.testing.embedded import EmbeddedBroker

SETTINGS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "http.listener": "127.0.0.1:0",
}
"""With a listener for controllers there are the parts that a cluster has."""


def current_page() -> str:
    """The page as the code is now."""
    with EmbeddedBroker(SETTINGS) as broker:
        if broker.broker is None:
            raise BarnabasError("the embedded broker did not start")
        return render_page(broker.broker.metrics)


if __name__ == "__main__":
    sys.stdout.write(current_page())
