"""The operator's own settings, from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What one operator process is started with."""

    namespaces: tuple[str, ...] = ()
    """Watch these namespaces only; none: the whole cluster."""
    resync_s: float = 10.0
    http_host: str = "0.0.0.0"
    http_port: int = 8080
    log_level: str = "INFO"
    lease: tuple[str, str] | None = None
    """Namespace and name of the Lease whose holder works; None: this operator has no others."""
    identity: str = ""
    """Holder of the lease, the same after a restart of the pod's container; empty: one of this process."""


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read them; a wrong value is named together with its variable."""
    listen = environment.get("METADATAQUORUM_OPERATOR_LISTEN", "0.0.0.0:8080")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"METADATAQUORUM_OPERATOR_LISTEN={listen}: expected host:port")
    resync = environment.get("METADATAQUORUM_OPERATOR_RESYNC_SECONDS", "10")
    try:
        resync_s = float(resync)
    except ValueError:
        resync_s = 0.0
    if resync_s <= 0:
        message = "expected a positive number of seconds"
        raise ValueError(f"METADATAQUORUM_OPERATOR_RESYNC_SECONDS={resync}: {message}")
    watched = (name.strip() for name in environment.get("WATCH_NAMESPACE", "").split(","))
    lease = environment.get("METADATAQUORUM_OPERATOR_LEASE", "")
    space, _, name = lease.partition("/")
    if lease and (not space or not name or "/" in name):
        raise ValueError(f"METADATAQUORUM_OPERATOR_LEASE={lease}: expected namespace/name")
    return Settings(
        namespaces=tuple(name for name in watched if name),
        resync_s=resync_s,
        http_host=host,
        http_port=int(port),
        log_level=environment.get("METADATAQUORUM_OPERATOR_LOG_LEVEL", "INFO").upper(),
        lease=(space, name) if lease else None,
        identity=environment.get("METADATAQUORUM_OPERATOR_IDENTITY", ""),
    )
