"""What the settings of a broker say to parts of its node that know no settings: connections and maintenance."""

from barnabas.runtime.connections import Connection, ConnectionLimits
from barnabas.runtime.maintenance import MaintenanceConfig
from barnabas.runtime.memory import max_unread_bytes
from barnabas.services.broker import Broker
from barnabas.services.settings.broker_checks import per_ip_overrides
from barnabas.services.settings.broker_config import BrokerConfig


def maintenance_config(config: BrokerConfig) -> MaintenanceConfig:
    """How often what is done to the logs."""
    return MaintenanceConfig(
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        cleaner_enable=config.log_cleaner_enable,
        cleaner_backoff_ms=config.log_cleaner_backoff_ms,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        scrub_bytes_per_second=config.log_scrub_bytes_per_second,
        scrub_interval_ms=config.log_scrub_interval_ms,
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """How many connections there may be, and what each of them may take."""
    return ConnectionLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_queued_bytes=config.queued_max_request_bytes,
        max_in_flight_bytes=config.connection_max_bytes_in_flight,
        max_frame_s=config.request_receive_timeout_ms / 1000,
        max_unread_bytes=max_unread_bytes(config.queued_max_response_bytes),
        max_unread_s=config.response_send_timeout_ms / 1000,
        max_waiting=config.limits.connection_max_requests_in_flight,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=per_ip_overrides(config),
        max_idle_s=config.connections_max_idle_ms / 1000,
        max_authenticating=config.security.max_connections_authenticating,
        max_authenticating_s=config.security.connection_authentication_timeout_ms / 1000,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )


def hold_s(broker: Broker, connection: Connection) -> float:
    """For how long a new connection is held, and then closed, because too many come from its address."""
    quotas = broker.quotas
    if not quotas.is_on_for_ips or broker.config.is_for_controllers(connection.listener):
        return 0.0
    return quotas.connect(connection.ip)
