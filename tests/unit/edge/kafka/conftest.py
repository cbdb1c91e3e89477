"""What tests of the Kafka edge share."""

import pytest

from barnabas.edge.kafka import fetching


@pytest.fixture(params=["at once", "in turns"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test of fetch twice: as a small request goes, and as one of many partitions does."""
    if request.param == "in turns":
        monkeypatch.setattr(fetching, "LONG_REQUEST_BYTES", 0)
