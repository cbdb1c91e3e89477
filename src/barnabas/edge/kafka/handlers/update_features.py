"""UpdateFeatures, versions 0 to 2: bring features to other levels.

Differs from Kafka: a feature stays at the level it has, which is the highest (see `services.features`); an update that
asks for that is done, any other is refused, and all of its request with it, as in Kafka.
"""

from typing import Any, Final

from barnabas.core.errors import InvalidUpdateVersion
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.services.broker import Broker
from barnabas.services.features import FeatureUpdate, UpgradeType, check_updates
from barnabas.wire.responses import Values

_TYPES_FROM: Final = 1  # the version from which on an update says what type it is of
_RESULTS_UNTIL: Final = 1  # the last version that answers for each feature


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    updates = [_update(each, asked.version) for each in request.feature_updates]
    try:
        check_updates(broker.image, updates)
    except InvalidUpdateVersion as error:
        return {"throttle_time": 0, **refused(error)}
    if asked.version > _RESULTS_UNTIL:
        return {"throttle_time": 0, **DONE}
    return {"throttle_time": 0, "results": [{"feature": each.name, **DONE} for each in updates], **DONE}


def _update(each: Any, version: int) -> FeatureUpdate:
    if version >= _TYPES_FROM:
        return FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type)
    kind = UpgradeType.SAFE_DOWNGRADE if each.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(each.feature, each.max_version_level, kind)
