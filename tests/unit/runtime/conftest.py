"""What tests of the runtime share."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.unit.runtime import metadata_support


@pytest.fixture
def loop_of_test() -> Iterator[None]:
    """One loop for all of a test, in which the metadata logs that it opens run on between its steps."""
    with asyncio.Runner() as runner:
        metadata_support.runners.append(runner)
        yield
        metadata_support.runners.pop()
    metadata_support.tasks.clear()
