"""Settings of a listener of Kafka's protocol on a port of the test's own."""

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.configuration.listener_config import ListenerConfig
from quorum_node.host_port import HostPort, ListenerAddress


def listener_settings(
    name: str = "CONTROLLER",
    *,
    port: int = 0,
    max_request_bytes: int = 1 << 20,
    limits: ConnectionLimits | None = None,
) -> ListenerConfig:
    """On loopback; port 0 is a free one."""
    return ListenerConfig(
        ListenerAddress(name, "127.0.0.1", port),
        HostPort("127.0.0.1", port),
        limits or ConnectionLimits(),
        max_request_bytes,
    )
