"""What the routes of the API use of a node: loaded once its Kafka port is up, and only where the API is served."""

from barnabas.edge.http.context import Context
from barnabas.edge.http.tokens import SECRET_BYTES, Login, Tokens
from barnabas.edge.kafka.inside import Inside
from barnabas.edge.kafka.server import KafkaServer
from barnabas.node.http_counting import Counted
from barnabas.runtime.connections import Connections
from barnabas.services.broker import Broker
from barnabas.services.history import History


def context_of(
    broker: Broker,
    kafka: KafkaServer,
    connections: Connections,
    *,
    counted: Counted,
    tokens: Tokens | None,
    login: Login | None,
    is_local: bool,
    is_private: bool,
) -> Context:
    """What the routes of the API use."""
    history = History(broker.served, broker.clock, kafka.times)
    counted.lags.listeners.append(history.note_lags)
    return Context(
        broker=broker,
        calls=Inside(kafka),
        reader=counted.reader,
        lags=counted.lags,
        stats=counted.stats,
        history=history,
        connections=connections,
        tokens=tokens_of(broker) if tokens is None else tokens,
        login=login,
        is_local=is_local,
        is_private=is_private,
    )


def tokens_of(broker: Broker) -> Tokens:
    """The tokens of a node, with a secret of its own."""
    lifetime_ms = broker.config.http.http_token_lifetime_ms
    return Tokens(broker.dice.token_bytes(SECRET_BYTES), broker.clock, lifetime_ms=lifetime_ms)
