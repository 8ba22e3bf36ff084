"""A substitute for cert-manager on a real API server that issues certificates of which a part of the lifetime has passed.

cert-manager itself is `certificate_issuer`; it has no such certificates. What is signed is `modelled_issuer`'s.
"""

import threading
import time
from types import TracebackType

from support.envtest.kube_api import ApiError, Json
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.modelled_issuer import ModelledIssuer, ready

_GROUP = "/apis/cert-manager.io/v1"
_POLL_S = 0.2


class IssuingController:
    """A controller for one namespace, until the context ends. `elapsed`: share of its lifetime that has passed when a
    certificate is issued.
    """

    def __init__(self, api: Kube, namespace: str, issuer: ModelledIssuer) -> None:
        self.elapsed = 0.0
        self._issuer, self._api, self._space = issuer, api, namespace
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cert-manager")
        self._errors: list[Exception] = []

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
        if error is None and self._errors:
            raise self._errors[0]

    def _run(self) -> None:
        while not self._ended.wait(_POLL_S):
            try:
                self._pass()
            except ApiError as error:
                if error.status not in {404, 409}:  # changed or deleted meanwhile
                    self._errors.append(error)
                    return
            except Exception as error:
                self._errors.append(error)
                return

    def _pass(self) -> None:
        for each in self._all():
            conditions = (each.get("status") or {}).get("conditions") or []
            done = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            if not done or self._api.find(self._secret(each)) is None:
                self._issue(each)

    def _issue(self, each: Json) -> None:
        life_s = 3600 * int(each["spec"]["duration"].split("h")[0])
        data = self._issuer.secret_data(each, time.time() - self.elapsed * life_s)
        path = self._secret(each)
        if self._api.find(path) is None:
            meta = {"name": each["spec"]["secretName"], "namespace": self._space}
            secret: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
            self._api.create(kube.core(self._space, "secrets"), secret)
        else:
            self._api.merge(path, {"data": data})
        status = f"{self._path}/{each['metadata']['name']}/status"
        self._api.merge(status, {"status": ready(time.time())})

    def _all(self) -> list[Json]:
        return list(self._api.list(self._path))

    def _secret(self, each: Json) -> str:
        return kube.core(self._space, "secrets", each["spec"]["secretName"])

    @property
    def _path(self) -> str:
        return f"{_GROUP}/namespaces/{self._space}/certificates"
