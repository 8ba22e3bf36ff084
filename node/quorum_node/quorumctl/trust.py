"""Which leader URLs may receive the admin token.

A node that is not the leader names the leader's URL. It comes from a log record and is not
authenticated, so it is used only if the user gave that URL or trusts its host. Pure: URLs and
names, no HTTP.
"""

import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

_SERVICE_LABEL = "svc"
"""Format of a pod's DNS name: POD.SERVICE.NAMESPACE.svc[.CLUSTER-DOMAIN]."""


def uses_tls(url: str) -> bool:
    """Whether a request to this URL is sent over TLS. A scheme has no case (RFC 3986, 3.1)."""
    return url.partition(":")[0].lower() == "https"


def own_domain() -> str:
    """DNS domain of the pod that this process runs in; empty outside of Kubernetes.

    The headless Service of a quorum names its members only.
    """
    _, _, domain = socket.getfqdn().partition(".")
    return domain if _SERVICE_LABEL in domain.split(".")[2:] else ""


class Trust:
    """`urls`: the given admin URLs. `hosts`: names or addresses, or .SUFFIX for all names below it."""

    def __init__(
        self, urls: Iterable[str], hosts: Iterable[str], domain: Callable[[], str] = own_domain
    ) -> None:
        self._urls = {_place(url) for url in urls}
        self._hosts = tuple(host.lower() for host in hosts)
        self._domain = domain

    def covers(self, url: str) -> bool:
        """Whether the token may be sent to this URL."""
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
        """Whether the host is a pod of this pod's Service, with or without the cluster domain."""
        name, _, parent = host.partition(".")
        if not name or _SERVICE_LABEL not in parent.split(".")[2:3]:
            return False
        domain = self._domain().lower()
        return bool(domain) and f"{domain}.".startswith(f"{parent}.")


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None if it is not an admin URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return None if not parts.hostname else (parts.scheme, parts.hostname.lower(), port)
