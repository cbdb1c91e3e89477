"""Fetch, versions 4 to 18, is on the data path: `edge.kafka.fetching`."""

from barnabas.edge.kafka.registry import On, register
from barnabas.wire.apis import FETCH

register(FETCH, 4, 18, on=On.ALL)
