"""Applies the CronJob for backups, and reads the results of its Jobs.

Runs in addition to the one step of a reconcile, because a quorum that waits for something needs backups too. A quorum
without spec.backup causes no calls. Errors are reported by the condition and do not block other work.
"""

from math import inf
from typing import Any

import structlog

from quorum_operator.backup_crd import BackupSpec, BackupStatus
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import backup, base_objects
from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.kube.backup_jobs import read_runs
from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.drift import drift, removals
from quorum_operator.kube.errors import ApiError
from quorum_operator.object_store_crd import ACCESS_KEY, CA_KEY, SECRET_KEY
from quorum_operator.planner.backups import (
    BackupRun,
    BackupsSeen,
    carried_on,
    reported_until,
)
from quorum_operator.planner.formation_defaults import Defaults
from quorum_operator.refused import by_api
from quorum_operator.status_crd import MetadataQuorumStatus

Object = dict[str, Any]

_log = structlog.get_logger("quorum_operator")


def has_backups(spec: MetadataQuorumSpec, earlier: MetadataQuorumStatus) -> bool:
    """Whether a CronJob exists or may exist."""
    return spec.backup is not None or earlier.backup is not None


class BackupKeeper:
    """Backups of all quorums."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def keep(
        self,
        owner: Owner,
        spec: MetadataQuorumSpec,
        earlier: BackupStatus | None,
        now: float,
        *,
        secured: bool,
        idle: bool,
        defaults: Defaults = frozenset(),
    ) -> BackupsSeen | None:
        """Apply the CronJob and return the state of the backups; None if none are configured. `idle`: no change is
        allowed now. `earlier`: from the last status; `defaults`: of the quorum's formation.
        """
        backup_spec = spec.backup
        path = paths.namespaced("cronjobs", owner.namespace, owner.backup)
        if backup_spec is None:
            why = None if earlier is None else await self._remove(owner, path, idle=idle)
            return None if earlier is None or why is None else BackupsSeen(inf, earlier, why)
        refused, suspended = "", False
        runs: tuple[BackupRun, ...] | None = None
        try:
            wanted = backup.build(owner, spec, backup_spec, secured=secured, defaults=defaults)
            live = await self._api.get(path)
            suspended = bool(((live or {}).get("spec") or {}).get("suspend"))
            if live is not None and not base_objects.is_ours(live, owner):
                refused = f"CronJob/{owner.backup} is not owned by this resource, so it is not changed: delete or rename it"
            elif (live is None or drift(wanted, live) is not None) and not idle:
                await self._restore(path, wanted, live)
            refused = refused or await self._missing_secret(owner, backup_spec)
            runs, blocked = await read_runs(self._api, owner, reported_until(earlier))
            refused = refused or blocked
        except ApiError as error:
            # Also if the API server is unavailable: perhaps only for these objects, and members have to be repaired.
            refused = by_api(f"CronJob/{owner.backup}", error).message
            _log.warning(
                "the CronJob of backups was refused: see the condition BackupCurrent",
                quorum=owner.name,
                error=refused,
            )
        status = carried_on(runs or (), earlier, now)
        if runs is None and earlier is not None:
            status = status.model_copy(update={"failures": earlier.failures})
        return BackupsSeen(float(backup_spec.overdue_after_seconds), status, refused, suspended)

    async def _restore(self, path: str, wanted: Object, live: Object | None) -> None:
        """Apply the CronJob, without what an apply would leave of other clients."""
        patch = None if live is None else removals(wanted, live)
        if patch is not None:
            await self._api.merge(path, {"metadata": {}, **patch})
        await self._api.apply(path, wanted)

    async def _missing_secret(self, owner: Owner, backup_spec: BackupSpec) -> str:
        """Return a message about a missing Secret of the object store or a missing key, without which the pods can't
        start; "" if nothing is missing. Only the names of the keys are checked.
        """
        store = backup_spec.object_store
        if store is None:
            return ""
        needed: list[tuple[str, tuple[str, ...], str]] = [
            (store.credentials_secret_name, (ACCESS_KEY, SECRET_KEY), "credentialsSecretName")
        ]
        if store.ca_secret_name is not None:
            needed.append((store.ca_secret_name, (CA_KEY,), "caSecretName"))
        for name, keys, field in needed:
            found = await self._api.get(paths.namespaced("secrets", owner.namespace, name))
            missing = [key for key in keys if key not in ((found or {}).get("data") or {})]
            if missing:
                lacks = "does not exist" if found is None else f"has no {' and no '.join(missing)}"
                return (
                    f"Secret/{name} (spec.backup.objectStore.{field}) {lacks}: create it with the "
                    f"{'keys' if len(keys) > 1 else 'key'} {' and '.join(keys)}"
                )
        return ""

    async def _remove(self, owner: Owner, path: str, *, idle: bool) -> str | None:
        """Delete the CronJob if this resource owns it; backups are kept. Returns why it still exists, or None."""
        if idle:
            return f"CronJob/{owner.backup} will be deleted when spec.paused is false"
        try:
            live = await self._api.get(path)
            if live is not None and base_objects.belongs_to(live, owner):
                await self._api.delete(path, uid=live["metadata"]["uid"])
        except ApiError as error:
            return by_api(f"CronJob/{owner.backup}", error).message
        return None
