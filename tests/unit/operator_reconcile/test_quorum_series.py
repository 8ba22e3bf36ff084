"""The metrics of a quorum: the values of its status, and none when it is deleted."""

import pytest

from quorum_operator.metrics import Metrics, Reconciled
from quorum_operator.status_crd import MetadataQuorumStatus, Phase
from support.declared_metrics import QUORUM, busy, full_status

_PLACE = {"namespace": QUORUM.namespace, "name": QUORUM.name}
_PREFIX = "metadataquorum_operator_"


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(_PREFIX + name, {**_PLACE, **labels})


def named(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.render().decode().splitlines() if f'name="{name}"' in line]


def test_status_is_exported_as_metrics() -> None:
    metrics = busy()
    assert value(metrics, "quorum_phase", phase="Pending") == 1
    assert value(metrics, "quorum_phase", phase="Ready") == 0
    assert value(metrics, "quorum_condition", condition="Ready") == 1
    assert value(metrics, "quorum_condition", condition="QuorumLost") == 0
    assert value(metrics, "quorum_failure_tolerance") == 1
    assert value(metrics, "quorum_voters") == 3
    assert value(metrics, "quorum_ready_members") == 2
    assert value(metrics, "quorum_unhealthy_members") == 1
    assert value(metrics, "quorum_voter_lag_records") == 7, "an observer's lag is not a voter's"
    assert value(metrics, "quorum_certificate_renewal_time_seconds") == 1767225600
    assert value(metrics, "quorum_last_backup_time_seconds") == 1767225600
    assert value(metrics, "quorum_backup_current") == 1
    assert value(metrics, "quorum_update_failed") == 1


@pytest.mark.parametrize(
    ("reason", "current"), [("FirstPending", 1.0), ("Overdue", 0.0), ("LastRunFailed", 0.0)]
)
def test_backup_is_current_unless_one_is_missed(reason: str, current: float) -> None:
    metrics, status = busy(), full_status()
    reported = status.conditions[0].model_copy(
        update={"type": "BackupCurrent", "status": "False", "reason": reason}
    )
    status.conditions.append(reported)
    metrics.set_status(*QUORUM[1:], status)
    assert value(metrics, "quorum_backup_current") == current


def test_unknown_state_has_no_metric_value() -> None:
    metrics = busy()
    metrics.set_status(*QUORUM[1:], MetadataQuorumStatus(phase=Phase.DEGRADED))
    removed = ("failure_tolerance", "voter_lag_records", "certificate_renewal_time_seconds")
    for name in (*removed, "last_backup_time_seconds", "backup_current", "update_failed"):
        assert value(metrics, f"quorum_{name}") is None
    assert value(metrics, "quorum_condition", condition="Ready") is None


def test_repair_is_counted_once_for_repeated_reports() -> None:
    metrics = busy()
    for _ in range(3):
        metrics.set_status(*QUORUM[1:], full_status())
    assert value(metrics, "repairs_total") == 1
    more = full_status()
    more.repairs.append(more.repairs[0].model_copy(update={"started_at": "2026-02-01T00:00:00Z"}))
    metrics.set_status(*QUORUM[1:], more)
    assert value(metrics, "repairs_total") == 2
    assert metrics.registry.get_sample_value(f"{_PREFIX}repair_duration_seconds_count") == 2


def test_repairs_before_the_operator_became_active_are_not_counted_again() -> None:
    """It becomes active again after it lost the lease; the status still lists the repairs."""
    metrics = busy()
    metrics.forget(QUORUM)
    metrics.set_status(*QUORUM[1:], full_status())
    assert value(metrics, "repairs_total") == 0
    assert metrics.registry.get_sample_value(f"{_PREFIX}repair_duration_seconds_count") == 1
    more = full_status()
    more.repairs.append(more.repairs[0].model_copy(update={"started_at": "2026-02-01T00:00:00Z"}))
    metrics.set_status(*QUORUM[1:], more)
    assert value(metrics, "repairs_total") == 1
    assert metrics.registry.get_sample_value(f"{_PREFIX}repair_duration_seconds_count") == 2


def test_metrics_of_a_deleted_quorum_are_removed() -> None:
    metrics = busy()
    other = Reconciled("MetadataQuorum", "blue", "other")
    metrics.begin(other)
    metrics.set_status(*other[1:], full_status())
    metrics.end(other, None)
    assert named(metrics, QUORUM.name)
    kept = named(metrics, "other")
    metrics.forget(QUORUM)
    metrics.forget(QUORUM)
    assert named(metrics, QUORUM.name) == []
    assert named(metrics, "other") == kept


@pytest.mark.parametrize("kind", ["PartitionReassignment"])
def test_deleted_object_of_another_kind_with_the_same_name_removes_no_metrics(kind: str) -> None:
    metrics = busy()
    metrics.forget(Reconciled(kind, *QUORUM[1:]))
    assert value(metrics, "quorum_voters") == 3
