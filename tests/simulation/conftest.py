"""What the simulations share."""

import pytest


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A simulated crash is logged as the error it would be anywhere else."""
    caplog.set_level("CRITICAL")
