"""GET over TLS on the admin API of pods; a connection to each pod is kept.

The API server's HTTP proxy works for plain HTTP only: it presents no certificate and removes the bearer token. Must not
know the requests.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.envtest.kube_api import Access, ApiError
from support.kind_env import kube
from support.kind_env.forwarded import ForwardedTls, NotConnected


@dataclass(frozen=True, slots=True)
class PodAddress:
    """A port of a pod, and the name that its certificate has to have."""

    namespace: str
    pod: str
    port: int
    host: str


class PodConnections:
    """May be used by several threads; one request at a time. `context` is read for every new connection."""

    def __init__(self, access: Access, context: Callable[[], ssl.SSLContext]) -> None:
        self._access = access
        self._context = context
        self._kept: dict[PodAddress, http.client.HTTPConnection] = {}
        self._one_at_a_time = threading.Lock()

    def get(self, address: PodAddress, path: str, *, timeout_s: float) -> dict[str, Any]:
        """The document. Raises ApiError for a status that is not 2xx, and NotConnected without an answer."""
        with self._one_at_a_time:
            kept = self._kept.pop(address, None)
            if kept is not None:
                try:
                    return self._ask(address, kept, path, timeout_s)
                except NotConnected:
                    # the connection may have been closed in the meantime, and a GET may be repeated
                    pass
            return self._ask(address, self._connected(address), path, timeout_s)

    def close(self) -> None:
        """Close the kept connections."""
        with self._one_at_a_time:
            for each in self._kept.values():
                each.close()
            self._kept.clear()

    def _connected(self, address: PodAddress) -> http.client.HTTPConnection:
        pod = kube.core(address.namespace, "pods", address.pod)
        path = f"{pod}/portforward?ports={address.port}"
        connection = http.client.HTTPConnection(address.host, address.port)
        connection.sock = ForwardedTls(self._access, path, self._context(), address.host)
        return connection

    def _ask(
        self,
        address: PodAddress,
        connection: http.client.HTTPConnection,
        path: str,
        timeout_s: float,
    ) -> dict[str, Any]:
        try:
            connection.sock.settimeout(timeout_s)
            connection.request("GET", path)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NotConnected(f"{address.pod}: {error!r}") from None
        if answer.will_close:
            connection.close()
        else:
            self._kept[address] = connection
        if not 200 <= answer.status < 300:
            raise ApiError("GET", path, answer.status, content.decode(errors="replace"))
        document: dict[str, Any] = json.loads(content)
        return document
