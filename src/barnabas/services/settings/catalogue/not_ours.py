"""The names of Kafka's settings that are accepted and ignored, in one place.

So a stock ``server.properties`` works. A name is ignored only if doing so is harmless: one that promises protection
(encryption, authentication, quotas, policies) is refused instead, since the operator would rely on it. When a name
gains a meaning it moves from here to `BrokerConfig`.
"""

from typing import Final

_IGNORED: Final = """
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    auto.include.jmx.reporter
    broker.id.generation.enable controlled.shutdown.enable controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.quorum.append.linger.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.socket.timeout.ms
    delete.records.purgatory.purge.interval.requests early.start.listeners fetch.purgatory.purge.interval.requests
    follower.fetch.last.tiered.offset.enable
    group.consumer.assignor.offload.enable
    group.consumer.regex.refresh.interval.ms
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.new.enable group.coordinator.rebalance.protocols
    group.coordinator.threads
    group.share.assignors
    group.streams.heartbeat.interval.ms group.streams.max.size group.streams.num.standby.replicas
    group.streams.session.timeout.ms
    initial.broker.registration.timeout.ms inter.broker.protocol.version
    kafka.metrics.polling.interval.secs kafka.metrics.reporters listener.security.protocol.map
    security.inter.broker.protocol
    log.dir.failure.timeout.ms
    log.flush.start.offset.checkpoint.interval.ms log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms
    max.request.partition.size.limit metadata.log.dir metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
    metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    num.replica.alter.log.dirs.threads
    offsets.commit.required.acks offsets.commit.timeout.ms offsets.load.buffer.size
    offsets.topic.compression.codec
    producer.id.expiration.check.interval.ms
    producer.purgatory.purge.interval.requests queued.max.requests
    replica.socket.receive.buffer.bytes
    replication.quota.window.num replication.quota.window.size.seconds reserved.broker.max.id
    server.max.startup.time.ms
    share.coordinator.append.linger.ms share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
    share.coordinator.threads share.coordinator.write.timeout.ms
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    ssl.allow.dn.changes ssl.allow.san.changes ssl.keymanager.algorithm ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
    telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.partition.verification.enable
    transaction.state.log.load.buffer.size
    transaction.two.phase.commit.enable
    unstable.api.versions.enable unstable.feature.versions.enable
"""

IGNORED_NAMES: Final = frozenset(_IGNORED.split())
IGNORED_PREFIXES: Final = ("confluent.", "zookeeper.")

_HARMLESS_VALUES: Final = {
    "alter.config.policy.class.name": (),
    "client.quota.callback.class": (),
    "create.topic.policy.class.name": (),
    "max.connection.creation.rate": (str(2**31 - 1),),
    "principal.builder.class": (),
    "remote.log.storage.system.enable": ("false",),
    "sasl.client.callback.handler.class": (),
    "sasl.jaas.config": (),
    "sasl.login.callback.handler.class": (),
    "sasl.login.class": (),
    "sasl.server.callback.handler.class": (),
    "ssl.engine.factory.class": (),
}
"""Refused names, with the values that are ignored nevertheless (an empty value is always one of them)."""

_REFUSED_PREFIXES: Final = ("delegation.token.", "listener.name.", "sasl.", "ssl.")


def is_ignored(name: str, text: str) -> bool:
    """True if the name is Kafka's, has no effect here, and this value can be ignored without harm."""
    if name in _HARMLESS_VALUES:
        return text.strip() in ("", *_HARMLESS_VALUES[name])
    return name in IGNORED_NAMES or name.startswith(IGNORED_PREFIXES)


def is_refused(name: str) -> bool:
    """True if the name is Kafka's and promises something that is not implemented."""
    return name in _HARMLESS_VALUES or name.startswith(_REFUSED_PREFIXES)


def known_names() -> list[str]:
    """All exact names of this list, in order."""
    return sorted(IGNORED_NAMES | set(_HARMLESS_VALUES))
