"""The SDK for asyncio: ``async with barnabas.aio.Bus() as bus: async for message in bus.consume("orders"): ...``."""

from barnabas.client.aio import AckMode, Bus, Job, Queue, Reader, Sent, Transaction

__all__ = ["AckMode", "Bus", "Job", "Queue", "Reader", "Sent", "Transaction"]
