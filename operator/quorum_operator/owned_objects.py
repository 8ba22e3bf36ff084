"""The objects of a quorum that belong to no single member: ConfigMap, Services, disruption budget, network policy and
token Secret.

Applies them independently of each other, so that a rejected one does not block the others.
"""

import secrets
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, network_policy, tls, token_secret
from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.drift import removals
from quorum_operator.kube.errors import AlreadyExists, ApiError
from quorum_operator.kube.token import token_of
from quorum_operator.outcome import Outcome, not_done, together
from quorum_operator.planner.observed import Identity
from quorum_operator.refused import is_frozen

Object = dict[str, Any]

RECREATED = frozenset({"ConfigMap", "Service"})
"""Kinds with fields that become immutable, such as `spec.clusterIP`. Their role has `delete`."""


class OwnedObjects:
    """The objects of one quorum."""

    def __init__(
        self,
        api: KubeApi,
        owner: Owner,
        spec: MetadataQuorumSpec,
        identities: tuple[Identity, ...],
        drain_floor: int | None = None,
    ) -> None:
        self._api, self._owner, self._spec = api, owner, spec
        self._policed = network_policy.is_wanted(spec, identities)
        self._stage = tls.stage_of(spec, identities)
        self._drain_floor = drain_floor
        self._identity = max(identities, key=lambda each: each.index, default=None)

    async def apply(self, objects: tuple[str, ...]) -> Outcome:
        """Create or update these objects, named as `Kind/name`."""
        outcomes = []
        for each in base_objects.build_all(
            self._owner, self._spec, self._stage, self._identity, self._drain_floor
        ):
            subject = f"{each['kind']}/{each['metadata']['name']}"
            if subject not in objects:
                continue
            if each["kind"] == network_policy.KIND and self._policed is False:
                outcomes.append(await self._remove(subject, each))
            else:
                outcomes.append(await self._apply(subject, each))
        subject = f"Secret/{self._owner.token_secret}"
        if subject in objects:
            outcomes.append(await self._make_token(subject))
        return together(outcomes)

    async def _apply(self, subject: str, wanted: Object) -> Outcome:
        path = base_objects.path_of(wanted)
        live: Object | None = None
        try:
            live = await self._api.get(path)
            if live is not None and not base_objects.is_ours(live, self._owner):
                return not_done(subject, _already_exists(subject))
            patch = None if live is None else removals(wanted, live)
            if patch is not None:
                # An apply keeps fields that other clients have added. Here they would change what the
                # object does.
                await self._api.merge(path, {"metadata": {}, **patch})
            await self._api.apply(path, wanted)
        except ApiError as error:
            if live is not None and self._is_recreated(wanted, live, error):
                return await self._recreate(subject, path, live, wanted)
            return not_done(subject, error)
        return Outcome(True)

    async def _remove(self, subject: str, unwanted: Object) -> Outcome:
        """Delete an object if this resource owns it."""
        path = base_objects.path_of(unwanted)
        try:
            live = await self._api.get(path)
            if live is not None and base_objects.belongs_to(live, self._owner):
                await self._api.delete(path, uid=live["metadata"]["uid"])
        except ApiError as error:
            return not_done(subject, error)
        return Outcome(True)

    def _is_recreated(self, wanted: Object, live: Object, error: ApiError) -> bool:
        """Whether another client changed an immutable field of this resource's own object."""
        mine = base_objects.belongs_to(live, self._owner)
        return mine and wanted["kind"] in RECREATED and is_frozen(error)

    async def _recreate(self, subject: str, path: str, live: Object, wanted: Object) -> Outcome:
        """Recreate an object with a changed immutable field. These objects hold no state."""
        try:
            await self._api.delete(path, uid=live["metadata"]["uid"])
            await self._api.apply(path, wanted)
        except ApiError as error:
            return not_done(subject, error)
        return Outcome(True, f"{subject} had an immutable field changed: it was recreated")

    def _is_own_secret(self, live: Object) -> bool:
        """Whether it is this quorum's token Secret. A Secret with a token may have lost its owner and labels."""
        is_unowned = not live["metadata"].get("ownerReferences") and token_of(live) is not None
        return is_unowned or base_objects.is_ours(live, self._owner)

    async def _make_token(self, subject: str) -> Outcome:
        path = paths.namespaced("secrets", self._owner.namespace, self._owner.token_secret)
        body = token_secret.build(self._owner, secrets.token_urlsafe(32))
        try:
            live = await self._api.get(path)
            if live is None:
                await self._api.create(path.rpartition("/")[0], body)
                return Outcome(True)
            if not self._is_own_secret(live):
                return not_done(subject, _already_exists(subject))
            # A token in use is never replaced.
            lost = {} if token_of(live) is not None else {"stringData": body["stringData"]}
            meta = {key: body["metadata"][key] for key in ("labels", "ownerReferences")}
            version = live["metadata"].get("resourceVersion")
            await self._api.merge(path, {"metadata": {**meta, "resourceVersion": version}, **lost})
        except ApiError as error:
            return not_done(subject, error)
        return Outcome(True)


def _already_exists(subject: str) -> AlreadyExists:
    return AlreadyExists(409, "AlreadyExists", f"{subject} exists already")
