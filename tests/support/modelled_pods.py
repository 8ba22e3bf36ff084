"""StatefulSets, pods and disks of the planner's model: their state. Their behaviour is in `quorum_model.py`."""

from dataclasses import dataclass, field

from quorum_node.survivor import Survivor
from quorum_operator.planner.observed import FailureLatch, Marks, StorageChoice


@dataclass
class Disk:
    """The volume of one incarnation; `uuid` is set once it was formatted."""

    state: str = "ok"  # ok, failed, full, mount-fails, host-gone
    uuid: str | None = None
    claim_deleting: bool = False
    healed: bool = False
    """It failed once and looks intact again."""
    marks: Marks = field(default_factory=Marks)
    """The annotations of its claim."""


@dataclass
class Pod:
    """One pod. `up_at`: when its process answers; `gone_at`: when its deletion is noticed; its process has ended before."""

    uid: str
    created_at: float
    up_at: float
    gone_at: float | None = None
    exit_code: int | None = None
    restart_hash: str = "r0"
    recover: Survivor | None = None
    down_since: float | None = None


@dataclass
class Set:
    """One StatefulSet with its annotations."""

    node_id: int
    number: int
    formation: int
    founder: bool
    created_at: float
    replaces: int | None
    storage: StorageChoice
    version: int = 1
    replicas: int = 1
    uuid: str | None = None
    failed: FailureLatch | None = None
    unlatched_at: list[float] = field(default_factory=list)
    stopped: str | None = None
    predecessor: str | None = None
    template: str = ""
    disk: Disk = field(default_factory=Disk)
    pod: Pod | None = None
    caught_up_at: float | None = None
    rebuilt: bool = False
    recovery: Survivor | None = None
    """Annotated; `given_up` as well. `recover`: the value in its template."""
    given_up: bool = False
    recover: Survivor | None = None

    @property
    def name(self) -> str:
        return f"q-{self.node_id}-{self.number}"

    @property
    def asked(self) -> Survivor | None:
        """The value that its template should have."""
        return None if self.given_up else self.recovery
