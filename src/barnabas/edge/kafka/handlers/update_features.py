"""UpdateFeatures, versions 0 to 2: change the levels of features.

An update that cannot be done refuses the whole request, as in Kafka. Differs from Kafka: only the level of
`metadata.version` can change, and only rise (see `services.features`); an update to the level in use succeeds.
Differs from Kafka: a feature stays at its level, which is the highest (see `services.features`); an update to that
level succeeds, any other is refused, and with it the whole request, as in Kafka. `kraft.version` can go from 0 to 1:
the fixed list of voters is written to the log, and can change from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.quorum_requests import quorum_of
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.services.features import KRAFT_VERSION, FeatureUpdate, UpgradeType, check_updates, update_features
from barnabas.wire.apis import UPDATE_FEATURES

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import update_features as message

_TYPES_FROM: Final = 1  # the version from which on an update says what type it is of
_RESULTS_UNTIL: Final = 1  # the last version that answers for each feature


@serves(UPDATE_FEATURES, 0, 2, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.UpdateFeaturesRequest, asked: Asked
) -> message.UpdateFeaturesResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
    except BarnabasError as error:
        return {**refused(error)}
    updates = [_update(each, asked.version) for each in request.feature_updates]
    try:
        kraft_version = 0 if broker.quorum is None else broker.quorum.kraft_version
        if request.validate_only:
            check_updates(broker.image, updates, kraft_version=kraft_version)
        else:
            await broker.metadata.commit(lambda image: update_features(image, updates, kraft_version=kraft_version))
            if any(each.name == KRAFT_VERSION and each.level > kraft_version for each in updates):
                await quorum_of(broker).make_dynamic()
    except BarnabasError as error:
        return {**refused(error)}
    if asked.version > _RESULTS_UNTIL:
        return {**DONE}
    return {"results": [{"feature": each.name, **DONE} for each in updates], **DONE}


def _update(each: message.FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version >= _TYPES_FROM:
        return FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type)
    kind = UpgradeType.SAFE_DOWNGRADE if each.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(each.feature, each.max_version_level, kind)
