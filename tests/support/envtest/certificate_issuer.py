"""cert-manager's own controllers as a process, on a real API server, with an Issuer that signs with an authority.

Owns the process and its objects. Definitions and controllers come from the same pinned Go module (`testbed.programs`).
"""

import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from testbed import programs

from support.envtest.kube_api import ApiError, Json
from support.generated_certificates import Issued, key_pem, pem
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.kind_env.waiting import wait_for
from support.yaml_text import read_yaml

_GROUP = "/apis/cert-manager.io/v1"
_ISSUER = "internal"
_AUTHORITY = "internal-authority"
_STOP_TIMEOUT_S = 30.0


def install_definitions(api: Kube) -> None:
    """Install cert-manager's definitions of its resources."""
    for file in programs.certificate_definitions():
        definition = read_yaml(file.read_text())
        api.apply(f"{kube.CRDS}/{definition['metadata']['name']}", definition)
    for plural in ("certificates", "certificaterequests", "issuers"):
        wait_for(f"{plural} are served", partial(_served, api, plural), timeout_s=60)


def _served(api: Kube, plural: str) -> bool:
    try:
        return api.list(f"{_GROUP}/namespaces/default/{plural}") is not None
    except ApiError as error:
        if error.status not in {404, 429}:
            raise
        return False


class CertManager:
    """Its controllers for one namespace; they run within `running()`."""

    def __init__(self, api: Kube, access: Path, namespace: str, folder: Path) -> None:
        """`access`: a kubeconfig. `folder`: of the log."""
        self._api, self._access, self._space = api, access, namespace
        self._log = folder / "cert-manager.log"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Until the context ends. Fails if the process has ended before."""
        with open(self._log, "ab") as log:
            command = [str(programs.cert_manager()), str(self._access), self._space]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
            assert process.poll() is None, self._log.read_text()[-2000:]
        finally:
            process.terminate()
            process.wait(_STOP_TIMEOUT_S)

    def sign_with(self, signer: Issued, *above: Issued) -> None:
        """Let the Issuer sign with this authority from now on. `above`: the authorities that signed it, up to the root."""
        chain = pem(signer.certificate, *(each.certificate for each in above))
        data = {"tls.crt": chain, "tls.key": key_pem(signer.key)}
        body = {"data": {key: b64encode(value).decode() for key, value in data.items()}}
        path = kube.core(self._space, "secrets", _AUTHORITY)
        if self._api.find(path) is not None:
            self._api.merge(path, body)
            return
        meta = {"name": _AUTHORITY, "namespace": self._space}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
        self._api.create(kube.core(self._space, "secrets"), {**secret, "metadata": meta, **body})
        issuer: Json = {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": {"name": _ISSUER, "namespace": self._space},
            "spec": {"ca": {"secretName": _AUTHORITY}},
        }
        self._api.create(f"{_GROUP}/namespaces/{self._space}/issuers", issuer)

    def certificates(self) -> list[Json]:
        return list(self._api.list(f"{_GROUP}/namespaces/{self._space}/certificates"))

    def renew(self) -> None:
        """Renew all Certificates, as `cmctl renew` does: by a condition in their status."""
        for each in self.certificates():
            self._trigger(each)

    def _trigger(self, certificate: Json) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        issuing = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered",
            "lastTransitionTime": now,
            "observedGeneration": certificate["metadata"]["generation"],
        }
        others = certificate["status"]["conditions"]
        conditions = [*(each for each in others if each["type"] != "Issuing"), issuing]
        path = f"{_GROUP}/namespaces/{self._space}/certificates/{certificate['metadata']['name']}"
        self._api.merge(f"{path}/status", {"status": {"conditions": conditions}})
