"""Produce, versions 3 to 13, is on the data path: `edge.kafka.producing`.

It is advertised from version 0 on, as Kafka does it: older librdkafka misreads a higher floor.
"""

from barnabas.edge.kafka.registry import register
from barnabas.wire.apis import PRODUCE

register(PRODUCE, 3, 13, advertised_from=0)
