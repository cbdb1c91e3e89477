"""The features of a cluster: which level of each is in use, which there are, and raising one. Over our own connections,
since librdkafka has no requests for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import check_answer
from barnabas.client.settings import Settings
from barnabas.core.errors import InvalidRequest
from barnabas.wire.apis import API_VERSIONS, UPDATE_FEATURES

_UPGRADE: Final = 1
_WITH_FEATURES: Final = 4  # the version of ApiVersions that has all of them
_ASKING: Final = {"client_software_name": "barnabas", "client_software_version": "1"}


@dataclass(frozen=True, slots=True)
class FeatureInfo:
    """A feature: the level in use (0: it is off), and those that the broker which was asked knows."""

    name: str
    level: int
    lowest: int
    highest: int


class FeatureAdmin:
    """The features of one cluster."""

    def __init__(self, settings: Settings, timeout_s: float = 30.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def find(self) -> list[FeatureInfo]:
        """All features, by name."""
        with Cluster(self._settings, self._timeout_s) as cluster:
            answer = cluster.trying(
                lambda: cluster.connect(cluster.brokers()[0]).call(API_VERSIONS.key, _ASKING, up_to=_WITH_FEATURES)
            )
        used = {str(each.name): int(each.max_version_level) for each in answer.finalized_features}
        return sorted(
            (
                FeatureInfo(str(each.name), used.get(str(each.name), 0), int(each.min_version), int(each.max_version))
                for each in answer.supported_features
            ),
            key=lambda each: each.name,
        )

    def upgrade(self, levels: Mapping[str, int], *, dry_run: bool = False) -> None:
        """Raise features to these levels, all or none: refused unless every node knows them. It cannot be undone. With
        `dry_run`, only say whether that would be accepted.
        """
        if not levels:
            raise InvalidRequest("nothing to upgrade: name a feature")
        updates = [
            {"feature": name, "max_version_level": level, "allow_downgrade": False, "upgrade_type": _UPGRADE}
            for name, level in levels.items()
        ]
        request = {
            "timeout": int(self._timeout_s * 1000),
            "feature_updates": updates,
            "validate_only": dry_run,
        }

        def ask(cluster: Cluster) -> None:
            answer = cluster.ask(UPDATE_FEATURES.key, request)
            for each in (*getattr(answer, "results", ()), answer):  # of each feature, in older versions
                check_answer(each, "upgrade")

        with Cluster(self._settings, self._timeout_s) as cluster:
            cluster.trying(lambda: ask(cluster))
