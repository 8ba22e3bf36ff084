"""State kept in memory about one resource between reconciles. A restarted operator works without it.

It is kept while the resource exists. A resource that is deleted and applied again starts without it.
"""

from dataclasses import dataclass, field, replace

from quorum_operator.attempts import Attempts
from quorum_operator.certificate_attempts import CertificateAttempts
from quorum_operator.certificate_keeper import Opened
from quorum_operator.desired.names import Owner
from quorum_operator.fallback_addresses import FallbackAddresses
from quorum_operator.kept_reports import KeptReports
from quorum_operator.kube.searches import Searches
from quorum_operator.planner.backups import BackupsSeen
from quorum_operator.planner.certificates_seen import CertificatesSeen
from quorum_operator.planner.observed import Incarnation
from quorum_operator.pod_client import TlsPodClient
from quorum_operator.quorum_client import Seen
from quorum_operator.resource_facts import suspicions, unreachable_since
from quorum_operator.status_crd import MetadataQuorumStatus

OBJECTS_PERIOD_S = 20.0
LEFT_S = 600.0
"""Interval of corrections of a template that the API server stores differently each time."""
MOVING_S = 5.0
"""Time after a step for which the watches may not show its effect yet."""
WAIT_SHARE = 0.05
"""Delay until the next reconcile, as a fraction of the time waited so far."""
WAIT_GROWN_MOST_S = 10.0


@dataclass(frozen=True, slots=True)
class PodAccess:
    """How the admin API of a quorum's pods is reached. `pod_client`: for TLS; None for clear text."""

    pod_client: TlsPodClient | None = None


@dataclass(slots=True)
class Remembered:
    """Memory about the resource with this UID. Times are seconds of a monotonic clock."""

    uid: str
    fallback_addresses: FallbackAddresses = field(default_factory=FallbackAddresses)
    attempts: Attempts = field(default_factory=Attempts)
    certificate_attempts: CertificateAttempts = field(default_factory=CertificateAttempts)
    searches: Searches = field(default_factory=Searches)
    reports: KeptReports = field(default_factory=KeptReports)
    moved_at: float = float("-inf")
    """Time of the last change."""
    outages: int = 0
    """Number of reconciles in a row that could not read from the API server."""
    must_read_live: bool = False
    """Whether the last reconcile changed something, so that the next one has to read from the API server."""
    checked: tuple[int, float] = (0, float("-inf"))
    """Generation and time at which all Services and similar objects were up to date."""
    waits: tuple[str, float] | None = None
    """What the plan waits for, and since when."""
    opened: Opened | None = None
    """Last client for pods with certificates."""
    secured: bool | None = None
    """Whether members accept only TLS; otherwise they are still called in clear text. None: not observed yet."""
    certificates: tuple[CertificatesSeen, float] | None = None
    """Certificate state of the last check, and the time of the next one."""
    certificates_wait: tuple[str, float] | None = None
    """What the certificates wait for, and since when."""
    backups: tuple[BackupsSeen | None, int, float] = (None, 0, float("-inf"))
    """Backup state with generation and time."""
    requests: tuple[str | None, ...] = ()
    """Requests in annotations at the last check of the certificates."""
    mounts_created_at: float | None = None
    """Creation time of the nodes' ConfigMap, from the last check (seconds since 1970)."""
    drain_floor: int | None = None
    """`minAvailable` of the disruption budget, from the last check."""
    confirmed: Seen | None = None
    """The newest confirmed description that this operator wrote into the status. Only the holder of a lease sets it: no
    other operator writes the status then, so a different value there is an edit by another client.
    """
    left: dict[str, tuple[str | None, float]] = field(default_factory=dict)
    """Parts of a template, by StatefulSet UID, that the API server stored differently, and when (seconds since 1970).
    They are not corrected again before LEFT_S: an admission webhook changes them, or did so at that time.
    """

    @property
    def pod_client(self) -> TlsPodClient | None:
        """The client for pods that accept only TLS; None for clear text."""
        return self.opened.pod_client if self.opened is not None and self.secured else None

    @property
    def access(self) -> PodAccess | None:
        """How its pods are reached; None while that is unknown."""
        if self.secured is None or (self.secured and self.opened is None):
            return None
        return PodAccess(self.pod_client)

    def is_left(self, uid: str, drift: str | None, now: float) -> bool:
        """Whether a difference of a StatefulSet's template is not corrected for now."""
        part, at = self.left.get(uid, (None, 0.0))
        return part == drift and 0.0 <= now - at < LEFT_S

    def newest(self, recorded: Seen) -> tuple[Seen, bool]:
        """The newest confirmed description, and whether the status has a later one that this operator did not write."""
        if self.confirmed is None or not recorded.is_beyond(self.confirmed):
            return recorded, False
        return self.confirmed, True

    def check_objects_again(self) -> None:
        """Check Services and similar objects in the next reconcile."""
        self.checked = (0, float("-inf"))

    def noted(self, mounts_created_at: float | None, drain_floor: int | None) -> None:
        """Remember facts of a check of the Services and similar objects."""
        self.mounts_created_at, self.drain_floor = mounts_created_at, drain_floor

    def is_moving(self, now: float) -> bool:
        """Whether something was changed just now."""
        return now - self.moved_at < MOVING_S

    def certificates_are_due(self, now: float, requests: tuple[str | None, ...]) -> bool:
        """Whether the Secrets have to be checked; False without certificates."""
        if self.certificates is None:
            return False
        return now >= self.certificates[1] or requests != self.requests

    def backups_are_due(self, generation: int, now: float) -> bool:
        """Whether the CronJob and its Jobs have to be checked."""
        _, at_generation, at = self.backups
        return at_generation != generation or now - at > OBJECTS_PERIOD_S

    def objects_are_due(self, generation: int, now: float) -> bool:
        """Whether Services and ConfigMaps have to be checked; not in each reconcile of a repair."""
        at_generation, at = self.checked
        return at_generation != generation or now - at > OBJECTS_PERIOD_S

    def wait_s(self, reason: str, at_least_s: float, now: float) -> float:
        """Delay until the next reconcile: the longer the wait, the longer the delay. Changes wake the operator
        anyway.
        """
        if self.waits is None or self.waits[0] != reason:
            self.waits = (reason, now)
        return _grown(self.waits[1], at_least_s, now)

    def certificates_wait_s(self, reason: str, at_least_s: float, now: float) -> float:
        """The same for the certificates."""
        if self.certificates_wait is None or self.certificates_wait[0] != reason:
            self.certificates_wait = (reason, now)
        return _grown(self.certificates_wait[1], at_least_s, now)


def _grown(since: float, at_least_s: float, now: float) -> float:
    return max(at_least_s, min((now - since) * WAIT_SHARE, WAIT_GROWN_MOST_S))


def with_memory(
    incarnations: tuple[Incarnation, ...],
    known: Remembered,
    earlier: MetadataQuorumStatus,
    now: float,
) -> tuple[Incarnation, ...]:
    """Add facts from the last status and from earlier reconciles."""
    suspected, away = suspicions(earlier, now), unreachable_since(earlier, now)
    return tuple(
        replace(
            each,
            suspected=suspected.get((each.node_id, each.number)),
            drift=None if known.is_left(each.uid, each.drift, now) else each.drift,
            unreachable_since=away.get((each.node_id, each.number)),
        )
        for each in incarnations
    )


class Memory:
    """Memory about all resources of one kind."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], Remembered] = {}

    def known(self, namespace: str, name: str) -> Remembered | None:
        """Memory of the last resource with this name, with any UID; None if there is none."""
        return self._places.get((namespace, name))

    def access_to(self, owner: Owner) -> PodAccess | None:
        """How the pods of this resource are reached; None while that is unknown."""
        found = self._places.get((owner.namespace, owner.name))
        return found.access if found is not None and found.uid == owner.uid else None

    def of(self, owner: Owner) -> Remembered:
        """Memory of this resource; new if its UID has changed."""
        found = self._places.get((owner.namespace, owner.name))
        if found is None or found.uid != owner.uid:
            found = Remembered(owner.uid)
            self._places[owner.namespace, owner.name] = found
        return found

    def forget(self, namespace: str, name: str) -> None:
        """Forget a deleted resource."""
        self._places.pop((namespace, name), None)
