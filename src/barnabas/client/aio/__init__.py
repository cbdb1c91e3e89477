"""The SDK for asyncio: the verbs of `barnabas.Bus`, to be awaited. Used as `barnabas.aio`.

librdkafka and what is around it do the work in threads, as in the synchronous client; what is here hands it over to the
event loop, in chunks where records are many. `reading` holds the readers, `sending` the way of a record, `jobs` the
queues, `bus` the verbs.
"""

from barnabas.client.aio.bus import Bus
from barnabas.client.aio.jobs import Job, Queue
from barnabas.client.aio.reading import Reader
from barnabas.client.aio.sending import Sent, Transaction
from barnabas.client.queues.queue import AckMode

__all__ = ["AckMode", "Bus", "Job", "Queue", "Reader", "Sent", "Transaction"]
