"""The metrics that node and operator declare, with their labels, as Prometheus sees them.

The labels of the operator's metrics are taken from samples: one quorum with a status in which every field is set.
"""

from quorum_node.server.observing.metric_specs import PARTITION_LABEL, SPECS
from quorum_operator.backup_crd import BackupStatus
from quorum_operator.metrics import Metrics, Reconciled
from quorum_operator.status_crd import (
    Condition,
    FailureTolerance,
    MemberStatus,
    MetadataQuorumStatus,
    RepairStatus,
)
from quorum_operator.tls_crd import TlsMode, TlsStatus
from quorum_operator.update_crd import UpdateStatus

QUORUM = Reconciled("MetadataQuorum", "blue", "q")
TIME = "2026-01-01T00:00:00Z"


def full_status() -> MetadataQuorumStatus:
    """Of a quorum of which everything is known."""
    return MetadataQuorumStatus(
        voters=3,
        ready_replicas=2,
        failure_tolerance=FailureTolerance(now=1, after_next_step=1),
        members=[
            MemberStatus(id=1, voter=True, lag=0),
            MemberStatus(id=2, voter=True, lag=7, condition="NotReady"),
            MemberStatus(id=3, lag=900),
        ],
        tls=TlsStatus(mode=TlsMode.MANAGED, renewal_at=TIME),
        backup=BackupStatus(last_success_at=TIME),
        update=UpdateStatus(canary="q-2-1", since=TIME, failed="it crashed"),
        conditions=[
            Condition(type=kind, status=value, reason="R", message="m", last_transition_time=TIME)
            for kind, value in (("Ready", "True"), ("QuorumLost", "False"))
        ],
        repairs=[RepairStatus(id=1, incarnation=1, reason="R", started_at=TIME, seconds=9.0)],
    )


def busy() -> Metrics:
    """An operator's metrics after it has done everything once."""
    metrics = Metrics()
    metrics.set_leading(True)
    metrics.begin(QUORUM)
    metrics.set_status(QUORUM.namespace, QUORUM.name, MetadataQuorumStatus())
    metrics.set_status(QUORUM.namespace, QUORUM.name, full_status())
    metrics.end(QUORUM, None)
    metrics.begin(QUORUM)
    metrics.end(QUORUM, "Unavailable")
    metrics.count_step("AddVoter", True)
    metrics.count_call("GET", 0.0)
    metrics.waited(0.0)
    return metrics


def of_operator() -> dict[str, set[str]]:
    """Series name → names of its labels."""
    found: dict[str, set[str]] = {}
    for family in busy().registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def of_node() -> dict[str, set[str]]:
    """The same of a member."""
    found: dict[str, set[str]] = {}
    for spec in SPECS:
        labels = {part.strip() for part in (spec.label or "").split(",")} - {""}
        labels |= {PARTITION_LABEL} if spec.partition else set()
        if spec.kind in {"histogram", "summary"}:
            found[f"{spec.name}_sum"] = found[f"{spec.name}_count"] = labels
        if spec.kind == "histogram":
            found[f"{spec.name}_bucket"] = labels | {"le"}
        elif spec.kind == "counter":
            found[spec.name.removesuffix("_total") + "_total"] = labels
        elif spec.kind == "gauge":
            found[spec.name] = labels
    return found
