"""What a node serves beside Kafka's protocol: loaded only if it is asked for, and after Kafka's port is up."""

import asyncio
from typing import TYPE_CHECKING

from barnabas.core.errors import InvalidConfig
from barnabas.edge.kafka.inside import Inside
from barnabas.edge.kafka.server import KafkaServer
from barnabas.services.broker import Broker
from barnabas.services.settings.broker_config import BrokerConfig

if TYPE_CHECKING:
    from barnabas.edge.grpc.serving import GrpcServer


class Edges:
    """The other edges of one node: gRPC, if `grpc.listener` is set."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._grpc: GrpcServer | None = None
        self.grpc_address: tuple[str, int] | None = None
        """Where gRPC is served, if it is."""

    async def open(self, broker: Broker, kafka: KafkaServer, tasks: asyncio.TaskGroup) -> None:
        """Serve them, from now on."""
        if self._config.grpc.address is None:
            return
        try:
            from barnabas.edge.grpc.serving import GrpcServer  # noqa: PLC0415 - an extra, and large
        except ModuleNotFoundError as missing:
            raise InvalidConfig(
                f"grpc.listener is set, but {missing.name} is not installed: pip install 'barnabas[grpc]'"
            ) from None
        self._grpc = GrpcServer(broker, tasks, Inside(kafka))
        self.grpc_address = await self._grpc.start()
        self._grpc.report(broker.metrics)

    async def close(self) -> None:
        """End them, and what their clients leave to be done."""
        if self._grpc is not None:
            await self._grpc.stop()
