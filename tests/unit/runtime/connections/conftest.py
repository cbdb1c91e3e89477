"""What the tests of connections share: each holds on both event loops."""

import asyncio

import pytest
import uvloop

from tests.unit.runtime.connections.support import Run, Scenario

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    def run_it(scenario: Scenario) -> None:
        async def main() -> None:
            async with asyncio.timeout(60):
                await scenario()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run_it
