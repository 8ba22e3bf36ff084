"""The operator's settings, from environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass

from quorum_node.host_port import HostPort, parse_host_port
from quorum_operator.kube.rate_limit import USUAL_LIMITS, CallLimits, Limit
from quorum_operator.live_page import PageAddress
from quorum_operator.namespaced_name import NamespacedName

_PREFIX = "METADATAQUORUM_OPERATOR_"
_ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one operator process."""

    namespaces: tuple[str, ...] = ()
    """Watched namespaces; empty (WATCH_NAMESPACE is empty or *): the whole cluster."""
    resync_s: float = 10.0
    call_limits: CallLimits = USUAL_LIMITS
    """Rate limits of calls to the API server, without watches and the lease."""
    http_host: str = "0.0.0.0"
    http_port: int = 8080
    log_level: str = "INFO"
    lease: NamespacedName | None = None
    """Namespace and name of the Lease for leader election; None: no leader election."""
    home: str = ""
    """Namespace of the operator's own pod; empty outside of a cluster."""
    page: PageAddress | None = None
    """Address of the live page; None: disabled."""
    identity: str = ""
    """Holder identity in the lease, stable across container restarts; empty: generated."""


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings. Raises ValueError with the variable that has an invalid value."""
    listen = environment.get("METADATAQUORUM_OPERATOR_LISTEN", "0.0.0.0:8080")
    served = _place("METADATAQUORUM_OPERATOR_LISTEN", listen)
    watched = {name.strip() for name in environment.get("WATCH_NAMESPACE", "").split(",")} - {""}
    if "*" in watched and len(watched) > 1:
        message = "* stands for all namespaces and can't be combined with other names"
        raise ValueError(f"WATCH_NAMESPACE={environment['WATCH_NAMESPACE']}: {message}")
    lease = environment.get("METADATAQUORUM_OPERATOR_LEASE", "")
    space, _, name = lease.partition("/")
    if lease and (not space or not name or "/" in name):
        raise ValueError(f"METADATAQUORUM_OPERATOR_LEASE={lease}: expected namespace/name")
    return Settings(
        namespaces=tuple(sorted(watched - {"*"})),
        resync_s=_positive(environment, "RESYNC_SECONDS", 10.0, "number of seconds"),
        call_limits=CallLimits(
            _limit(environment, "API", USUAL_LIMITS.all),
            _limit(environment, "RESOURCE", USUAL_LIMITS.resource),
        ),
        http_host=served.host,
        http_port=served.port,
        log_level=environment.get("METADATAQUORUM_OPERATOR_LOG_LEVEL", "INFO").upper(),
        lease=NamespacedName(space, name) if lease else None,
        home=environment.get("METADATAQUORUM_OPERATOR_NAMESPACE") or space,
        page=_page(environment, served),
        identity=environment.get("METADATAQUORUM_OPERATOR_IDENTITY", ""),
    )


def _page(environment: Mapping[str, str], served: HostPort) -> PageAddress | None:
    listen = environment.get("METADATAQUORUM_OPERATOR_PAGE", "")
    if not listen:
        return None
    address = _place("METADATAQUORUM_OPERATOR_PAGE", listen)
    token_file = environment.get("METADATAQUORUM_OPERATOR_PAGE_TOKEN_FILE", "")
    page = PageAddress(address.host, address.port, token_file)
    if not page.is_loopback and not token_file:
        raise ValueError(
            f"METADATAQUORUM_OPERATOR_PAGE={listen}: this address is reachable from other hosts, so set "
            "METADATAQUORUM_OPERATOR_PAGE_TOKEN_FILE, or listen on 127.0.0.1 and use kubectl port-forward"
        )
    if address.port == served.port != 0 and _overlap(address.host, served.host):
        raise ValueError(
            f"METADATAQUORUM_OPERATOR_PAGE={listen}: /healthz and /metrics are served at this port "
            f"(METADATAQUORUM_OPERATOR_LISTEN={served}), so choose another one"
        )
    return page


def _overlap(one: str, other: str) -> bool:
    return one == other or not _ALL_ADDRESSES.isdisjoint((one, other))


def _place(name: str, value: str) -> HostPort:
    try:
        return parse_host_port(value, lowest_port=0)
    except ValueError as error:
        raise ValueError(f"{name}={value}: {error}") from None


def _limit(environment: Mapping[str, str], whose: str, usual: Limit) -> Limit:
    per_s = _positive(environment, f"{whose}_CALLS_PER_SECOND", usual.per_s, "number")
    at_once = _positive(environment, f"{whose}_BURST", usual.at_once, "whole number", whole=True)
    return Limit(per_s, int(at_once))


def _positive(
    environment: Mapping[str, str], name: str, usual: float, what: str, *, whole: bool = False
) -> float:
    text = environment.get(_PREFIX + name, "")
    if not text:
        return usual
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{_PREFIX}{name}={text}: expected a positive {what}")
    return value
