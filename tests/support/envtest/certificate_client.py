"""A client that presents the certificate of a Secret, like a user who may read the Secret.

Owns reading it again after changes: certificates and authorities are replaced while a test runs.
"""

import base64
import ssl
import time
from typing import Any

import httpx

from quorum_operator.pod_client import client_context
from support.envtest.kube_api import ApiError
from support.kind_env import kube
from support.kind_env.kube import Kube

_READ_AGAIN_S = 0.5


class HeldCertificate:
    """`name`: of the Secret. May be used by several threads."""

    def __init__(self, api: Kube, namespace: str, name: str) -> None:
        self._api = api
        self._path = kube.core(namespace, "secrets", name)
        self._held: tuple[float, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """The TLS context from the current or a recent content of the Secret. Raises ApiError while there is none."""
        held, now = self._held, time.monotonic()
        if held is None or now - held[0] > _READ_AGAIN_S:
            held = self._held = (now, self._read())
        return held[1]

    def _read(self) -> ssl.SSLContext:
        data: dict[str, Any] = self._api.get(self._path).get("data") or {}
        texts = {key: base64.b64decode(each).decode() for key, each in data.items()}
        if not {"ca.crt", "tls.crt", "tls.key"} <= texts.keys():
            raise ApiError("GET", self._path, 503, "there is no certificate in it yet")
        return client_context(texts["ca.crt"], texts["tls.crt"], texts["tls.key"])

    def get(self, url: str, host: str, *, timeout_s: float) -> httpx.Response:
        """GET from the server whose certificate names `host`."""
        with httpx.Client(verify=self.context(), trust_env=False) as client:
            return client.get(url, timeout=timeout_s, extensions={"sni_hostname": host})
