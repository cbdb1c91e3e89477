"""Who gets how many descriptors."""

import pytest

from barnabas.runtime.descriptors import share


@pytest.mark.parametrize(
    ("limit", "files", "connections"),
    [(64, 16, 8), (256, 48, 144), (1024, 240, 720), (65_536, 1024, 64_448), (1_048_576, 1024, 1_047_488)],
)
def test_logs_get_a_quarter_within_reason_and_connections_the_rest(limit: int, files: int, connections: int) -> None:
    assert share(limit) == (files, connections)
