"""Deletes cert-manager's Certificates of holders that no longer exist.

cert-manager would renew them for ever: those of replaced members, and those of identities that were removed from the
spec, whose access would never end. It keeps the Secret with the last key pair, which expires.
"""

import contextlib

import structlog

from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError, Conflict, NotFound
from quorum_operator.kube.finding import is_owned
from quorum_operator.refused import is_outage

_log = structlog.get_logger("quorum_operator")


class UnusedRequests:
    """Remembers for each quorum which holders were left last, so that it lists the Certificates only after a change."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._left: dict[str, frozenset[str]] = {}

    async def drop(self, owner: Owner, needed: frozenset[str] | None) -> list[str]:
        """Delete this quorum's Certificates except the `needed` ones (None: the spec names no issuer). Returns their
        names. Raises ApiError if the API server is unavailable.
        """
        before, names = self._left.get(owner.uid), needed or frozenset()
        if before == names or (before is None and needed is None):
            return []
        try:
            dropped = await self._drop(owner, names)
        except ApiError as error:
            if is_outage(error):
                raise
            # The role of an earlier chart does not permit it.
            _log.warning("unused Certificates are kept", quorum=owner.name, error=error.message)
            dropped = []
        self._left[owner.uid] = names
        return dropped

    async def _drop(self, owner: Owner, needed: frozenset[str]) -> list[str]:
        collection, dropped = paths.namespaced("certificates", owner.namespace), []
        for each in await self._api.find(collection, labels=owner.selector):
            meta = each["metadata"]
            if meta["name"] in needed or not is_owned(each, owner):
                continue
            path = paths.namespaced("certificates", owner.namespace, meta["name"])
            with contextlib.suppress(Conflict, NotFound):
                await self._api.delete(path, uid=meta["uid"])
                dropped.append(meta["name"])
        return dropped
