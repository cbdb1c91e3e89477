"""The broker that gets bad input, one for all files: it lives to the end with whatever was done to it, then stops."""

from collections.abc import Iterator

import pytest

from tests.system.bad_input.serving import MIB, Server
from tests.system.running import create_topic


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("serve"))
    create_topic(server.port, "compacted", cleanup_policy="compact", max_message_bytes=str(60 * MIB))
    for codec in ("gzip", "uncompressed"):
        create_topic(server.port, codec, compression_type=codec, max_message_bytes=str(60 * MIB))
    yield server
    server.check()
    server.stop()
