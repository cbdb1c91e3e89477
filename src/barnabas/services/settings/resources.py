"""Describing and altering the settings of topics, groups and brokers: recorded values override the broker's own.

Altering is decided on the image, as every change of the metadata. A broker's defaults apply to all topics, so a change
of them is refused if it makes the settings of a topic invalid. A change of a broker's own settings is asked of that
broker, which checks it before the controller gets it (`is_forwarded`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError, InvalidConfig, InvalidRequest
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import check_topic_name
from barnabas.core.metadata.records import (
    ALL_NODES,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    MIN_INSYNC_REPLICAS,
    TOPIC_RESOURCE,
)
from barnabas.core.metadata.topics import set_configs
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.services.features import DEAD_LETTERS, has_dead_letters
from barnabas.services.settings import (
    DescribedSetting,
    SettingChange,
    alter_broker,
    alter_group,
    alter_topic,
    check_broker_settings,
    check_thread_counts,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
    overlaid,
    replace_group,
    replace_topic,
    resolve_topic,
)
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.setting import InvalidSetting, UnknownSetting
from barnabas.services.settings.catalogue.share_settings import LETTER_TOPIC
from barnabas.services.settings.internal_topics import check_settings
from barnabas.services.settings.letter_topics import check_letter_topic
from barnabas.services.settings.loggers import describe_loggers
from barnabas.services.settings.resolution import effective_config

BROKER_LOGGER_RESOURCE: Final = 8
_MAX_DIGITS: Final = 10  # of the number of a broker

Decide = Callable[[Image], MetadataDecision[Mapping[str, str]]]


class ConfigResource(NamedTuple):
    """A type of resource with settings, numbered and named as in the protocol."""

    type: int
    name: str


def _own(image: Image, config: BrokerConfig) -> Mapping[str, str]:
    return image.config_of(BROKER_RESOURCE, str(config.node_id))


# Describing


def describe(image: Image, config: BrokerConfig, resource: ConfigResource) -> list[DescribedSetting]:
    """All settings of a resource; refused if it does not exist."""
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        check_topic_name(name)
        image.get_topic(name)
        return describe_overrides(image, config, image.config_of(TOPIC_RESOURCE, name))
    if kind == BROKER_RESOURCE:
        return _describe_broker(image, config, name)
    if kind == GROUP_RESOURCE:
        return _describe_group(image, config, name)
    if kind == BROKER_LOGGER_RESOURCE:
        check_own_node(name, config)
        return describe_loggers()
    if kind != CLIENT_METRICS_RESOURCE:
        raise InvalidRequest(f"resource type {kind} does not exist")
    if not name:
        raise InvalidRequest("a client metrics subscription must have a name")
    return []


def describe_overrides(image: Image, config: BrokerConfig, overrides: Mapping[str, str]) -> list[DescribedSetting]:
    """All settings of a topic that has these of its own."""
    return describe_topic(
        overrides,
        config,
        dynamic=_own(image, config),
        dynamic_default=image.config_of(BROKER_RESOURCE, ALL_NODES),
    )


def _describe_group(image: Image, config: BrokerConfig, name: str) -> list[DescribedSetting]:
    """The group need not exist: its settings may be altered before it is used."""
    _check_group_name(name)
    return describe_group(
        image.config_of(GROUP_RESOURCE, name),
        config,
        dynamic=_own(image, config),
        dynamic_default=image.config_of(BROKER_RESOURCE, ALL_NODES),
    )


def _describe_broker(image: Image, config: BrokerConfig, name: str) -> list[DescribedSetting]:
    for_all = image.config_of(BROKER_RESOURCE, ALL_NODES)
    if name == ALL_NODES:
        return describe_broker_defaults(for_all)
    check_own_node(name, config)
    return describe_broker(config, dynamic=_own(image, config), dynamic_default=for_all)


# Altering


async def alter(metadata: ClusterMetadata, decide: Decide, *, validate_only: bool) -> None:
    """Make a change decided by one of the functions below, or only validate it."""
    if validate_only:
        decide(metadata.image)
    else:
        await metadata.commit(decide)


def decide_changes(
    image: Image,
    config: BrokerConfig,
    resource: ConfigResource,
    changes: Sequence[SettingChange],
    *,
    is_forwarded: bool = False,
) -> MetadataDecision[Mapping[str, str]]:
    """Change single settings of a resource."""
    _check_alterable(image, config, resource, is_forwarded=is_forwarded)
    current = image.config_of(*resource)
    if resource.type == TOPIC_RESOURCE:
        changed = alter_topic(current, changes, effective_config(image, config))
        check_settings(resource.name, changed, config)
    elif resource.type == GROUP_RESOURCE:
        changed = alter_group(current, changes, config.groups, config.shares)
        _check_letters(image, config, changed)
    else:
        with _refusals_of_brokers():
            changed = alter_broker(current, changes)
            _check_min_insync_replicas(resource, changed)
            _check_broker(image, config, resource, overlaid(current, changed))
    return set_configs(image, resource.type, resource.name, changed)


def decide_replacement(
    image: Image,
    config: BrokerConfig,
    resource: ConfigResource,
    wanted: Mapping[str, str | None],
    *,
    is_forwarded: bool = False,
) -> MetadataDecision[Mapping[str, str]]:
    """Replace all settings of a resource."""
    _check_alterable(image, config, resource, is_forwarded=is_forwarded)
    current = image.config_of(*resource)
    if resource.type == TOPIC_RESOURCE:
        changed = replace_topic(current, wanted, effective_config(image, config))
        check_settings(resource.name, changed, config)
    elif resource.type == GROUP_RESOURCE:
        changed = replace_group(current, wanted, config.groups, config.shares)
        _check_letters(image, config, changed)
    else:
        with _refusals_of_brokers():
            changed = _replace_broker(current, wanted)
            _check_min_insync_replicas(resource, changed)
            _check_broker(image, config, resource, overlaid(current, changed))
    return set_configs(image, resource.type, resource.name, changed)


def _check_letters(image: Image, config: BrokerConfig, changed: Mapping[str, str | None]) -> None:
    """Refuse dead letters that no broker would write, or not every one of this cluster."""
    topic = (changed.get(LETTER_TOPIC) or "").strip()
    if not topic:
        return
    if not has_dead_letters(image):
        raise InvalidConfig(f"{LETTER_TOPIC} needs share.version {DEAD_LETTERS}: see UpdateFeatures")
    prefix = effective_config(image, config).shares.errors_deadletterqueue_topic_name_prefix
    check_letter_topic(topic, prefix=prefix)


def _replace_broker(current: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    nulls = sorted(name for name, text in wanted.items() if text is None)
    if nulls:
        raise InvalidRequest(f"settings cannot be null: {', '.join(nulls)}; omit settings to unset them")
    check_broker_settings({name: text for name, text in wanted.items() if text is not None})
    return {**dict.fromkeys(current), **wanted}


def _check_alterable(image: Image, config: BrokerConfig, resource: ConfigResource, *, is_forwarded: bool) -> None:
    if resource.type == TOPIC_RESOURCE:
        check_topic_name(resource.name)
        image.get_topic(resource.name)
    elif resource.type == BROKER_RESOURCE:
        if resource.name != ALL_NODES and not is_forwarded:
            check_own_node(resource.name, config)
    elif resource.type == GROUP_RESOURCE:
        _check_group_name(resource.name)
    elif resource.type == CLIENT_METRICS_RESOURCE:
        raise InvalidRequest("client metrics have no settings here: they are not served")
    elif resource.type == BROKER_LOGGER_RESOURCE:
        raise InvalidRequest("levels of loggers are altered one by one (IncrementalAlterConfigs), not all replaced")
    else:
        raise InvalidRequest(f"resource type {resource.type} does not exist")


def _check_group_name(name: str) -> None:
    if not name:
        raise InvalidRequest("the group id must not be empty")


def check_own_node(name: str, config: BrokerConfig) -> None:
    """Refuse the name of a broker that is not this one."""
    if not (name.isascii() and name.isdecimal()):
        raise InvalidRequest(f"a broker is named by its number, not {name!r}")
    if len(name) > _MAX_DIGITS or int(name) != config.node_id:
        raise InvalidRequest(f"this is broker {config.node_id}: send the request to broker {name}")


@contextmanager
def _refusals_of_brokers() -> Iterator[None]:
    """An invalid value of a broker setting is an invalid request, as in Kafka; an unknown name is not."""
    try:
        yield
    except UnknownSetting:
        raise
    except InvalidSetting as refusal:
        raise InvalidRequest(str(refusal)) from refusal


def _check_min_insync_replicas(resource: ConfigResource, changed: Mapping[str, str | None]) -> None:
    """Keep the one value that the cluster has of it (see `keep_min_insync_replicas`); Kafka's words and code."""
    if MIN_INSYNC_REPLICAS in changed and resource.name != ALL_NODES:
        raise InvalidConfig(f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.")
    if MIN_INSYNC_REPLICAS in changed and changed[MIN_INSYNC_REPLICAS] is None:
        raise InvalidConfig(f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.")


def _check_broker(image: Image, config: BrokerConfig, resource: ConfigResource, altered: Mapping[str, str]) -> None:
    """Refuse settings that are invalid for a broker, or for a topic together with its overrides.

    Those of another broker it has checked itself: nobody else knows what it was started with.
    """
    if resource.name not in (ALL_NODES, str(config.node_id)):
        return
    for_all = altered if resource.name == ALL_NODES else image.config_of(BROKER_RESOURCE, ALL_NODES)
    own = _own(image, config) if resource.name == ALL_NODES else altered
    broker = config.with_dynamic({**for_all, **own})
    check_thread_counts(effective_config(image, config), broker, altered)
    resolve_topic({}, broker)
    for (kind, name), overrides in image.configs.items():
        if kind == TOPIC_RESOURCE:
            try:
                resolve_topic(overrides, broker)
            except BarnabasError as error:
                raise InvalidConfig(f"topic '{name}' has settings that conflict with this: {error}") from error
