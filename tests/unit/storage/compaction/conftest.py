"""What the tests of compaction share."""

import pytest

from barnabas.storage.compaction import Engine


@pytest.fixture(params=list(Engine))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every rule holds with both key maps."""
    chosen: Engine = request.param
    return chosen
