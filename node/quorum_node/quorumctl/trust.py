"""To which address of a leader the admin token may be sent.

A node that does not lead names the leader's URL. The URL comes from a log record, so it is a hint and no
proof: it is used if the caller named that address, or trusts its host. Knows URLs and names, no HTTP.
"""

import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

_SERVICE_LABEL = "svc"
"""In the names of Kubernetes: POD.SERVICE.NAMESPACE.svc[.CLUSTER-DOMAIN]."""


def own_domain() -> str:
    """The domain of the pod that this runs in, empty elsewhere: its headless Service names members only."""
    _, _, domain = socket.getfqdn().partition(".")
    return domain if _SERVICE_LABEL in domain.split(".")[2:] else ""


class Trust:
    """`urls`: what was given; `hosts`: names or addresses, or .SUFFIX for every name below it."""

    def __init__(
        self, urls: Iterable[str], hosts: Iterable[str], domain: Callable[[], str] = own_domain
    ) -> None:
        self._urls = {_place(url) for url in urls}
        self._hosts = tuple(host.lower() for host in hosts)
        self._domain = domain

    def covers(self, url: str) -> bool:
        """Whether a secret may go there."""
        place = _place(url)
        if place is None:
            return False
        if place in self._urls:
            return True
        host = place[1]
        if any(host.endswith(each) if each[0] == "." else host == each for each in self._hosts):
            return True
        return self._is_neighbour(host)

    def _is_neighbour(self, host: str) -> bool:
        """A pod of the Service that this pod belongs to, with or without the cluster's domain."""
        name, _, parent = host.partition(".")
        if not name or _SERVICE_LABEL not in parent.split(".")[2:3]:
            return False
        domain = self._domain().lower()
        return bool(domain) and f"{domain}.".startswith(f"{parent}.")


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what is no URL of an admin API."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return None if not parts.hostname else (parts.scheme, parts.hostname.lower(), port)
