"""A substitute for cert-manager on a real API server: its definition of a Certificate, and a controller that issues them.

The definition is our own, from the fields that cert-manager documents (reference/api-docs, `cert-manager.io/v1`): those that are written
here, with their types, allowed words and what is required; an unknown field is refused by strict validation. What is signed is
`modelled_issuer`'s.
"""

import threading
import time
from types import TracebackType
from typing import Any

from support.envtest.kube_api import ApiError, Json
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.kind_env.waiting import wait_for
from support.modelled_issuer import ModelledIssuer, failed, ready, waiting

_NAME = "certificates.cert-manager.io"
_GROUP = "/apis/cert-manager.io/v1"
_POLL_S = 0.2
_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_USAGES = (
    *("signing", "digital signature", "content commitment", "key encipherment", "key agreement"),
    *("data encipherment", "cert sign", "crl sign", "encipher only", "decipher only", "any"),
    *("server auth", "client auth", "code signing", "email protection", "timestamping"),
)


def _object(properties: Json, *required: str) -> Json:
    found: Json = {"type": "object", "properties": properties}
    return found | ({"required": list(required)} if required else {})


_SPEC = _object(
    {
        "secretName": _TEXT,
        "commonName": {"type": "string", "maxLength": 64},
        "subject": _object({"organizations": _TEXTS, "organizationalUnits": _TEXTS}),
        "dnsNames": _TEXTS,
        "uris": _TEXTS,
        "ipAddresses": _TEXTS,
        "usages": {"type": "array", "items": {"type": "string", "enum": list(_USAGES)}},
        "privateKey": _object(
            {
                "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
                "size": {"type": "integer"},
                "encoding": {"type": "string", "enum": ["PKCS1", "PKCS8"]},
                "rotationPolicy": {"type": "string", "enum": ["Never", "Always"]},
            }
        ),
        "duration": {"type": "string", "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"},
        "renewBefore": {"type": "string", "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"},
        "issuerRef": _object({"name": _TEXT, "kind": _TEXT, "group": _TEXT}, "name"),
        "isCA": {"type": "boolean"},
    },
    "secretName",
    "issuerRef",
)
_STATUS = _object(
    {
        "conditions": {
            "type": "array",
            "items": _object(
                {
                    "type": _TEXT,
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": _TEXT,
                    "message": _TEXT,
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                },
                "type",
                "status",
            ),
        },
        "lastFailureTime": {"type": "string", "format": "date-time"},
        "notAfter": {"type": "string", "format": "date-time"},
        "revision": {"type": "integer"},
    }
)


def definition() -> Json:
    """The definition of Certificates."""
    schema = _object({"spec": _SPEC, "status": _STATUS}, "spec")
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": "Certificate", "plural": "certificates", "singular": "certificate"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": _NAME,
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "cert-manager.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


class IssuingController:
    """A controller for one namespace, until the context ends. `answer`: "issues", "waits" or "fails". `elapsed`: share of
    its lifetime that has passed when a certificate is issued.
    """

    def __init__(self, api: Kube, namespace: str, issuer: ModelledIssuer) -> None:
        self.issuer, self.answer, self.elapsed = issuer, "issues", 0.0
        self._api, self._space = api, namespace
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cert-manager")
        self.errors: list[Exception] = []

    def install(self) -> None:
        """Install the definition and the operator's right to it, as the chart does with certManager.enabled."""
        self._api.apply(f"{kube.CRDS}/{_NAME}", definition())
        wait_for("Certificates are served", self._served, timeout_s=60)

    def renew(self) -> None:
        """Renew all Certificates, as `cmctl renew` does."""
        for each in self._all():
            self._issue(each)

    def __enter__(self) -> "IssuingController":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None and self.errors:
            raise self.errors[0]

    def _run(self) -> None:
        while not self._ended.wait(_POLL_S):
            try:
                self._pass()
            except ApiError as error:
                if error.status not in {404, 409}:  # changed or deleted meanwhile
                    self.errors.append(error)
                    return
            except Exception as error:
                self.errors.append(error)
                return

    def _pass(self) -> None:
        for each in self._all():
            conditions = (each.get("status") or {}).get("conditions") or []
            done = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            there = self._api.find(self._secret(each)) is not None
            if done and there:
                continue
            if self.answer == "issues":
                self._issue(each)
            elif not conditions:
                reported = waiting if self.answer == "waits" else failed
                self._tell(each, reported(time.time()))

    def _issue(self, each: Json) -> None:
        life_s = 3600 * int(each["spec"]["duration"].split("h")[0])
        data = self.issuer.secret_data(each, time.time() - self.elapsed * life_s)
        path = self._secret(each)
        if self._api.find(path) is None:
            meta = {"name": each["spec"]["secretName"], "namespace": self._space}
            secret: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
            self._api.create(kube.core(self._space, "secrets"), secret)
        else:
            self._api.merge(path, {"data": data})
        self._tell(each, ready(time.time()))

    def _tell(self, each: Json, status: dict[str, Any]) -> None:
        path = f"{self._path}/{each['metadata']['name']}/status"
        self._api.merge(path, {"status": {"lastFailureTime": None, **status}})

    def _all(self) -> list[Json]:
        return list(self._api.list(self._path))

    def _served(self) -> bool:
        try:
            return self._all() is not None
        except ApiError as error:
            if error.status not in {404, 429}:
                raise
            return False

    def _secret(self, each: Json) -> str:
        return kube.core(self._space, "secrets", each["spec"]["secretName"])

    @property
    def _path(self) -> str:
        return f"{_GROUP}/namespaces/{self._space}/certificates"
