"""kopf handlers: events wake workers, nothing else.

Every change of one of the operator's resources wakes its worker, which then observes the state. Other objects are watched by
`kube/cache.py`, because kopf's handlers do not report objects that were deleted while a watch was interrupted. There
are no create, update or delete handlers and no daemons, hence no finalizers or annotations of kopf, so the operator
can be uninstalled at any time.
"""

from typing import Any

import kopf

from quorum_operator.application import Application
from quorum_operator.crd import GROUP, PLURAL, VERSION
from quorum_operator.desired.names import PREFIX
from quorum_operator.kube.client import authorization, load_configuration
from quorum_operator.reassignment_crd import REASSIGNMENT_PLURAL


def register(registry: kopf.OperatorRegistry, application: Application) -> None:
    """Register the handlers with kopf."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = f"{PREFIX}/operator"
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX)
        settings.posting.enabled = False  # the reconcile posts events, on the resource
        settings.peering.standalone = True  # all steps are safe with two operators running
        settings.scanning.disabled = True  # the CRD exists before the operator starts
        settings.watching.server_timeout = 240
        settings.watching.connect_timeout = 10
        settings.watching.inactivity_timeout = 150  # the server sends a bookmark every minute
        settings.watching.reconnect_backoff = 1
        settings.networking.error_backoffs = [0.2, 0.5, 1, 2, 5]
        await application.start()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        # The same source of credentials as the operator's own client. kopf calls this again when they
        # are rejected.
        found = load_configuration()
        scheme, _space, token = authorization(found).partition(" ")
        return kopf.ConnectionInfo(
            server=found.host,
            ca_path=found.ssl_ca_cert,
            insecure=not found.verify_ssl,
            certificate_path=found.cert_file,
            private_key_path=found.key_file,
            scheme=scheme or None,
            token=token or None,
        )

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        await application.stop()

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def quorum_changed(
        type: str | None, body: kopf.Body, namespace: str | None, name: str | None, **_: Any
    ) -> None:
        if namespace is not None and name is not None:
            deleted = type == "DELETED"
            application.quorum_changed(namespace, name, dict(body), deleted=deleted)

    @kopf.on.event(GROUP, VERSION, REASSIGNMENT_PLURAL, registry=registry)
    async def reassignment_changed(
        type: str | None, body: kopf.Body, namespace: str | None, name: str | None, **_: Any
    ) -> None:
        if namespace is not None and name is not None:
            deleted = type == "DELETED"
            application.reassignment_changed(namespace, name, dict(body), deleted=deleted)
