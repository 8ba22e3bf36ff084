"""Calls pods by IP address. Pods of a quorum with certificates have to prove their DNS name.

Owns the client side of TLS: the operator's certificate, its trusted authorities, and the expected name at an address.
If another pod has the address by now, the name does not match and the call fails. Owns the limits of an answer as
well: a pod runs an image that the owner of its quorum chooses, and the operator serves all quorums.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping

import httpx

from quorum_operator.awaited_calls import awaiting
from quorum_operator.desired.names import ADMIN_PORT, SECURE_ADMIN_PORT

MOST_BYTES = 1 << 20
"""Limit of an answer. The description of a quorum with a thousand observers has a third of it."""
_PLAIN = {"Accept-Encoding": "identity"}
"""A small compressed answer could be a large one."""


class PodClient:
    """Calls to the admin API of pods in clear text; `http` is shared by all quorums."""

    port = ADMIN_PORT

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def request(
        self,
        method: str,
        ip: str,
        path: str,
        *,
        timeout: httpx.Timeout,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: str | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> httpx.Response:
        """Call the process at `ip`. Returns status and content. Raises httpx.HTTPError, also if the content has more than
        `most_bytes` or is not complete within the timeout for reads.
        """
        request = self.http.build_request(
            method,
            self.url_of(ip, path),
            params=dict(params or {}) or None,
            headers={**_PLAIN, **(headers or {})},
            content=content,
            timeout=timeout,
            extensions=self._extensions(ip),
        )
        with awaiting(f"{method} {request.url}"):
            return await self._sent(request, timeout, most_bytes)

    async def _sent(
        self, request: httpx.Request, timeout: httpx.Timeout, most_bytes: int
    ) -> httpx.Response:
        answer = await self.http.send(request, stream=True)
        try:
            async with asyncio.timeout(timeout.read):
                found = await _content(answer, most_bytes)
        except TimeoutError as error:
            raise httpx.ReadTimeout("the answer is not complete", request=request) from error
        finally:
            await answer.aclose()
        return httpx.Response(answer.status_code, content=found, request=request)

    def url_of(self, ip: str, path: str) -> str:
        """URL of a pod's admin API; an IPv6 address is in brackets."""
        return url_of(ip, path)

    def _extensions(self, ip: str) -> dict[str, object]:
        return {}


class TlsPodClient(PodClient):
    """Calls to the pods of one quorum with certificates.

    `names`: the DNS name that the process at an address has to prove. `shared`: a name in every member's certificate,
    for all other addresses.
    """

    port = SECURE_ADMIN_PORT

    def __init__(self, http: httpx.AsyncClient, names: Mapping[str, str], shared: str) -> None:
        super().__init__(http)
        self._names, self._shared = names, shared

    def url_of(self, ip: str, path: str) -> str:
        """URL of a pod's admin API over TLS."""
        return url_of(ip, path, "https", self.port)

    def _extensions(self, ip: str) -> dict[str, object]:
        return {"sni_hostname": self._names.get(ip, self._shared)}


async def _content(answer: httpx.Response, most_bytes: int) -> bytes:
    """The content as it was sent: not decompressed. Raises httpx.ReadError if it has more than `most_bytes`."""
    found = bytearray()
    assert isinstance(answer.stream, httpx.AsyncByteStream)
    async for part in answer.stream:
        found += part
        if len(found) > most_bytes:
            text = f"the answer has more than {most_bytes} bytes"
            raise httpx.ReadError(text, request=answer.request)
    return bytes(found)


def url_of(ip: str, path: str, scheme: str = "http", port: int = ADMIN_PORT) -> str:
    """URL of a pod's admin API; an IPv6 address is in brackets."""
    host = f"[{ip}]" if ":" in ip else ip
    return f"{scheme}://{host}:{port}{path}"


def client_context(trusted_pem: str, chain_pem: str = "", key_pem: str = "") -> ssl.SSLContext:
    """A TLS 1.3 context with host name checks. Without a key pair no certificate is presented; without trusted
    authorities every handshake fails.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The user's authority may be an intermediate one, whose issuer need not be trusted here.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if trusted_pem:
        context.load_verify_locations(cadata=trusted_pem)
    if key_pem:
        load_pair(context, chain_pem, key_pem)
    return context


def load_pair(context: ssl.SSLContext, chain_pem: str, key_pem: str) -> None:
    """Load the key pair through a file in memory: Python loads key pairs only from files, and the key must not be
    written to a disk.
    """
    handle = os.memfd_create("pair", os.MFD_CLOEXEC)
    try:
        os.write(handle, (key_pem + chain_pem).encode())
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
