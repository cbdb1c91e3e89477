"""Settings of a broker are asked of that broker, by its number."""

import pytest

from barnabas.core.errors import InvalidRequest
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.resources import check_own_node


@pytest.mark.parametrize("name", ["", "one", "-1", "\u0661", "2", "9" * 5000])
def test_a_name_that_is_not_the_number_of_this_broker_is_refused(name: str) -> None:
    config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": "/data"})

    with pytest.raises(InvalidRequest):
        check_own_node(name, config)
    check_own_node("1", config)
