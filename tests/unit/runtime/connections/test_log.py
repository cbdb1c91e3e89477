"""What connections leave in the log: a few lines of each kind, however many clients misbehave."""

import logging

import pytest

from tests.unit.runtime.connections.support import Run, serving

STRANGERS = 50
MOST_LINES = 10  # of one kind, in a minute
OTHER_KIND = b"\x7f\xff\xff\xff"  # the length of a frame that is never taken


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    formatter = logging.Formatter("%(levelname)s %(name)s %(message)s")
    return [formatter.format(record) for record in caplog.records if record.name == "barnabas.connections"]


@pytest.mark.parametrize(("kind", "text"), [(b"r", ": no"), (b"b", "a bug")])
def test_many_that_are_closed_for_one_reason_are_a_few_lines_and_another_reason_is_heard(
    run: Run, caplog: pytest.LogCaptureFixture, kind: bytes, text: str
) -> None:
    async def scenario() -> None:
        async with serving() as server:
            for _ in range(STRANGERS):
                stranger = await server.connect()
                await stranger.send(kind)
                await stranger.wait_closed_by_server()
            other = await server.connect()
            other.writer.write(OTHER_KIND)
            await other.wait_closed_by_server()

    run(scenario)
    *same, last = lines(caplog)
    assert len(same) == MOST_LINES
    assert all(text in line for line in same)
    assert "a frame of 2147483647 bytes" in last
