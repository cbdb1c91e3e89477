"""Every test of fetch runs both ways."""

import pytest


@pytest.fixture(autouse=True)
def _always_both_ways(both_ways: None) -> None:
    del both_ways
