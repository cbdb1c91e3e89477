"""The table of APIs says what kio's schemas say."""

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from barnabas.wire.apis import APIS, NEVER, Api


def test_every_api_of_the_protocol_is_there() -> None:
    assert {key: api.name for key, api in APIS.items()} == dict(api_key_map)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_api_is_flexible_from_the_version_on_that_the_table_says(api: Api) -> None:
    versions = sorted(version for version, kinds in schema_name_map[api.name].items() if EntityType.request in kinds)
    flexible = [version for version in versions if version >= api.flexible_from]
    assert bool(flexible) == (api.flexible_from != NEVER)
    for version in (*flexible[:1], versions[-1]):
        assert load_request_schema(api.key, version).__flexible__ == (version >= api.flexible_from)
    rigid = [version for version in versions if version < api.flexible_from]
    for version in rigid[-1:]:
        assert not load_request_schema(api.key, version).__flexible__
