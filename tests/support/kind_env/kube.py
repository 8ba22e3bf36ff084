"""A blocking Kubernetes client: requests as JSON, and the paths of the kinds in use.

kubectl would work too, but each start of it takes longer on a small machine than the request.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from support.envtest.kube_api import MERGE_PATCH, Access, ApiError, Json

APPLY_PATCH = "application/apply-patch+yaml"
_FIELD_MANAGER = "trial"
_CALL_TIMEOUT_S = 20.0

NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
VOLUMES = "/api/v1/persistentvolumes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

API_VERSION = "metadataquorum.dev/v1beta1"
"""Version that tests write resources in, as the examples do."""


def core(namespace: str, plural: str, name: str = "") -> str:
    return _joined(f"{NAMESPACES}/{namespace}/{plural}", name)


def apps(namespace: str, plural: str, name: str = "") -> str:
    return _joined(f"/apis/apps/v1/namespaces/{namespace}/{plural}", name)


def policy(namespace: str, plural: str, name: str = "") -> str:
    return _joined(f"/apis/policy/v1/namespaces/{namespace}/{plural}", name)


def batch(namespace: str, plural: str, name: str = "") -> str:
    return _joined(f"/apis/batch/v1/namespaces/{namespace}/{plural}", name)


def network_policies(namespace: str, name: str = "") -> str:
    return _joined(f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies", name)


def quorums(namespace: str, name: str = "") -> str:
    return _joined(f"/apis/{API_VERSION}/namespaces/{namespace}/metadataquorums", name)


def reassignments(namespace: str, name: str = "") -> str:
    return _joined(f"/apis/{API_VERSION}/namespaces/{namespace}/partitionreassignments", name)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if name else path


class Kube:
    """Requests to one API server. Raises ApiError for every answer that is not 2xx."""

    def __init__(self, kubeconfig: Path) -> None:
        self.access = access = Access.from_kubeconfig(kubeconfig)
        self._client = httpx.Client(
            base_url=access.url,
            headers=dict(access.headers),
            verify=access.tls if access.tls is not None else True,
            timeout=_CALL_TIMEOUT_S,
            trust_env=False,
        )

    def close(self) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        timeout_s: float = _CALL_TIMEOUT_S,
    ) -> Json:
        answer = self._client.request(
            method,
            path,
            content=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            params=query,
            timeout=timeout_s,
        )
        if not answer.is_success:
            raise ApiError(method, path, answer.status_code, answer.text)
        document: Any = answer.json()
        return document if isinstance(document, dict) else {"items": document}

    def get(self, path: str, *, timeout_s: float = _CALL_TIMEOUT_S) -> Json:
        return self.call("GET", path, timeout_s=timeout_s)

    def lines(
        self, path: str, query: Mapping[str, str], *, quiet_s: float = _CALL_TIMEOUT_S
    ) -> Iterator[str]:
        """Lines of a response as they arrive, until it ends or nothing arrives for the timeout."""
        timeout = httpx.Timeout(_CALL_TIMEOUT_S, read=quiet_s)
        with self._client.stream("GET", path, params=query, timeout=timeout) as answer:
            if not answer.is_success:
                raise ApiError("GET", path, answer.status_code, answer.read().decode())
            yield from answer.iter_lines()

    def as_user(self, user: str, path: str) -> int:
        """The status of a GET with the rights of `user`."""
        groups = [("Impersonate-Group", "system:authenticated")]
        return self._client.get(path, headers=[("Impersonate-User", user), *groups]).status_code

    def find(self, path: str) -> Json | None:
        """The object, or None if it does not exist."""
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str, selector: str = "") -> list[Json]:
        query = {"labelSelector": selector} if selector else None
        items: list[Json] = self.call("GET", path, query=query)["items"]
        return items

    def create(self, path: str, body: Json) -> Json:
        return self.call("POST", path, body)

    def apply(self, path: str, body: Json) -> Json:
        """Server-side apply; `path` names the object itself."""
        query = {"fieldManager": _FIELD_MANAGER, "force": "true"}
        return self.call("PATCH", path, body, content_type=APPLY_PATCH, query=query)

    def merge(self, path: str, body: Json) -> Json:
        return self.call("PATCH", path, body, content_type=MERGE_PATCH)

    def delete(self, path: str, *, grace_s: int | None = None) -> bool:
        """Delete it; True if it existed."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self.call("DELETE", path, options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True
