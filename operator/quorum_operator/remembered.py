"""What is remembered of one resource between looks. No step rests on it: a restarted operator goes on without.

Owns how long it is kept: as long as the resource is there. One that is deleted and applied again begins anew.
"""

from dataclasses import dataclass, field

from quorum_operator.attempts import Attempts
from quorum_operator.certificate_keeper import Opened
from quorum_operator.desired.names import Owner
from quorum_operator.door import SecureDoor
from quorum_operator.kept_reports import KeptReports
from quorum_operator.kube.searches import Searches
from quorum_operator.other_ways import OtherWays
from quorum_operator.planner.backups import BackupsSeen
from quorum_operator.planner.certificates_seen import CertificatesSeen

OBJECTS_PERIOD_S = 20.0
MOVING_S = 5.0
"""For so long after a step the watches may not have brought its outcome yet."""
WAIT_SHARE = 0.05
"""Of the time that the same is waited for: until the next look."""
WAIT_GROWN_MOST_S = 10.0


@dataclass(slots=True)
class Remembered:
    """Of the resource with this UID. Times are seconds of a monotonic clock."""

    uid: str
    other_ways: OtherWays = field(default_factory=OtherWays)
    attempts: Attempts = field(default_factory=Attempts)
    searches: Searches = field(default_factory=Searches)
    reports: KeptReports = field(default_factory=KeptReports)
    moved_at: float = float("-inf")
    """When something was done for it last."""
    goes_on: bool = False
    """Something was done in the last look: most likely there is more to do, and only a live look can do it."""
    checked: tuple[int, float] = (0, float("-inf"))
    """Generation, and time, at which all services and the like were in order."""
    waits: tuple[str, float] | None = None
    """What is waited for, and since when."""
    opened: Opened | None = None
    """The way to pods with certificates, as it was found last."""
    secured: bool = False
    """Members take TLS alone; else they are still asked in clear text."""
    certificates: tuple[CertificatesSeen, float] | None = None
    """How far the certificates were then, and when they are to be looked at again."""
    certificates_wait: tuple[str, float] | None = None
    """What the certificates wait for, and since when."""
    backups: tuple[BackupsSeen | None, int, float] = (None, 0, float("-inf"))
    """What was known of them, at which generation of the resource, and when."""
    asked: tuple[str | None, ...] = ()
    """What annotations of the resource asked for then."""
    config_created_at: float | None = None
    """When the ConfigMap of the nodes was made, as of the last look at such objects (seconds since 1970)."""
    drain_floor: int | None = None
    """Of the disruption budget, as of the last look at such objects."""
    left: dict[str, str | None] = field(default_factory=dict)
    """StatefulSet UID → what of its template the API server keeps otherwise than it is sent: not mended again."""

    @property
    def door(self) -> SecureDoor | None:
        """The way to pods that take TLS alone; None: in clear text."""
        return self.opened.door if self.opened is not None and self.secured else None

    def is_moving(self, now: float) -> bool:
        """Whether something was done just now."""
        return now - self.moved_at < MOVING_S

    def certificates_are_due(self, now: float, asked: tuple[str | None, ...]) -> bool:
        """Whether the Secrets are to be looked at; False where there are none."""
        if self.certificates is None:
            return False
        return now >= self.certificates[1] or asked != self.asked

    def backups_are_due(self, generation: int, now: float) -> bool:
        """Whether the CronJob and its Jobs are to be looked at, where there are or were any."""
        _, at_generation, at = self.backups
        return at_generation != generation or now - at > OBJECTS_PERIOD_S

    def objects_are_due(self, generation: int, now: float) -> bool:
        """Services and ConfigMaps need no look in each reconcile of a repair."""
        at_generation, at = self.checked
        return at_generation != generation or now - at > OBJECTS_PERIOD_S

    def wait_s(self, reason: str, at_least_s: float, now: float) -> float:
        """Until the next look: the longer the same is waited for, the later. Changes wake the operator anyway."""
        if self.waits is None or self.waits[0] != reason:
            self.waits = (reason, now)
        return _grown(self.waits[1], at_least_s, now)

    def certificates_wait_s(self, reason: str, at_least_s: float, now: float) -> float:
        """The same, of the certificates."""
        if self.certificates_wait is None or self.certificates_wait[0] != reason:
            self.certificates_wait = (reason, now)
        return _grown(self.certificates_wait[1], at_least_s, now)


def _grown(since: float, at_least_s: float, now: float) -> float:
    return max(at_least_s, min((now - since) * WAIT_SHARE, WAIT_GROWN_MOST_S))


class Memory:
    """Of all resources of one kind."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], Remembered] = {}

    def known(self, namespace: str, name: str) -> Remembered | None:
        """What is remembered of the resource that was there last."""
        return self._places.get((namespace, name))

    def of(self, owner: Owner) -> Remembered:
        """What is remembered of this very resource."""
        found = self._places.get((owner.namespace, owner.name))
        if found is None or found.uid != owner.uid:
            found = Remembered(owner.uid)
            self._places[owner.namespace, owner.name] = found
        return found

    def forget(self, namespace: str, name: str) -> None:
        """The resource is gone."""
        self._places.pop((namespace, name), None)
