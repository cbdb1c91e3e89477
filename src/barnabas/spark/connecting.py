"""Sessions of a Spark Connect server: Spark is elsewhere, and this process has no Java.

All sessions made here are closed before Python ends: an open one would close itself too late, and wait forever for a
thread that has ended.
"""

import atexit
import weakref
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import BarnabasError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS_WITHIN_S: Final = 10.0


def connect(remote: str) -> "SparkSession":
    """A session of the server at `sc://HOST:PORT`; `BarnabasError` if there is none that answers."""
    if not remote.startswith("sc://"):
        raise BarnabasError(f"{remote!r} is not an address of a Spark Connect server, as in sc://localhost:15002")
    try:
        import grpc
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client import DefaultChannelBuilder
    except ImportError as error:
        raise BarnabasError(f"Spark Connect needs more packages: pip install 'barnabas[connect]' ({error})") from None

    # Asked before Spark asks: where nobody listens, its client goes on trying for minutes without a word.
    with DefaultChannelBuilder(remote).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(_ANSWERS_WITHIN_S)
        except grpc.FutureTimeoutError:
            raise BarnabasError(f"no Spark Connect server answers at {remote.partition(';')[0]}") from None
    return _closed_at_exit(SparkSession.builder.remote(remote).getOrCreate())


def new_session(spark: "SparkSession") -> "SparkSession":
    """Another session of the same Spark, with views and settings of its own."""
    made: SparkSession = spark.newSession()
    return _closed_at_exit(made) if is_connected(made) else made


def close_session(spark: "SparkSession") -> None:
    """Close a session of a Connect server and everything that runs in it.

    Other sessions are not closed: they share one Spark.
    """
    if is_connected(spark):
        spark.stop()


def is_connected(spark: "SparkSession") -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


_open: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()


def _closed_at_exit(session: "SparkSession") -> "SparkSession":
    _open.add(session)
    return session


@atexit.register
def _close_all() -> None:
    for session in list(_open):
        session.stop()
