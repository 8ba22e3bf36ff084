"""Events that are posted because the status has changed."""

from quorum_operator.planner.conditions import CONFIRMED, OLDER_QUORUM
from quorum_operator.planner.member_problems import damaged_records, lost_records
from quorum_operator.planner.observed import Key, ReplicaView
from quorum_operator.planner.status_events import status_events
from quorum_operator.quorum_loss_crd import QuorumLossStatus
from quorum_operator.status_crd import Condition, MemberStatus, MetadataQuorumStatus, Phase


def status(*conditions: str | None, lost: bool = False) -> MetadataQuorumStatus:
    loss = QuorumLossStatus(message="2 of 3 voters are gone", replicas=[]) if lost else None
    members = [
        MemberStatus(id=number, uuid=f"uuid-{number}", condition=text)
        for number, text in enumerate(conditions, 1)
    ]
    return MetadataQuorumStatus(phase=Phase.READY, members=members, quorum_loss=loss)


def went_back(acknowledged: int, offset: int) -> str:
    text = lost_records(ReplicaView(Key(2, "uuid-2"), True, True, went_back=(acknowledged, offset)))
    assert text is not None
    return text


def test_replica_that_lost_records_is_reported_once_per_occurrence() -> None:
    quiet, first, second = status(None, None), went_back(90, 50), went_back(120, 60)
    (reported,) = status_events(status(None, first), quiet)
    assert (reported.kind, reported.reason) == ("Warning", "RecordsLost")
    assert "member 2 (uuid-2)" in reported.message
    assert "90" in reported.message
    assert "50" in reported.message
    assert status_events(status(None, first), status(None, first)) == []
    (again,) = status_events(status(None, second), status(None, first))
    assert "120" in again.message
    assert status_events(quiet, status(None, second)) == []


def test_member_that_receives_damaged_records_is_reported_once_per_offset() -> None:
    def damaged(offset: int) -> str | None:
        return damaged_records(ReplicaView(Key(2, "uuid-2"), True, True, damaged_from=offset))

    quiet, first, second = status(None, None), damaged(50), damaged(60)
    (reported,) = status_events(status(None, first), quiet)
    assert (reported.kind, reported.reason) == ("Warning", "DamagedRecords")
    assert "member 2 (uuid-2)" in reported.message
    assert "from offset 50 on" in reported.message
    assert status_events(status(None, first), status(None, first)) == []
    (again,) = status_events(status(None, second), status(None, first))
    assert "from offset 60 on" in again.message
    assert status_events(quiet, status(None, second)) == []


def test_other_member_conditions_cause_no_event() -> None:
    assert status_events(status("NotReady: CrashLoopBackOff", "DiskFull"), status(None, None)) == []


def test_container_that_cannot_start_is_reported_once_per_reason() -> None:
    first, again = "CannotStart: StartError: limit too low", "CannotStart: StartError: try 2"
    (reported,) = status_events(status(first, None), status(None, None))
    assert (reported.kind, reported.reason) == ("Warning", "MemberCannotStart")
    assert "limit too low" in reported.message
    assert status_events(status(again, None), status(first, None)) == []
    (other,) = status_events(status("CannotStart: ErrImagePull: x", None), status(again, None))
    assert "ErrImagePull" in other.message


def test_loss_and_return_of_a_quorum_are_reported() -> None:
    (gone,) = status_events(status(lost=True), status())
    assert (gone.kind, gone.reason) == ("Warning", "QuorumLost")
    (back,) = status_events(status(), status(lost=True))
    assert (back.kind, back.reason) == ("Normal", "QuorumRegained")
    assert status_events(status(lost=True), status(lost=True)) == []


def test_voters_from_before_a_recovery_are_reported_once() -> None:
    def saying(text: str) -> MetadataQuorumStatus:
        at = "2026-01-02T03:04:05Z"
        condition = Condition(
            type=CONFIRMED, status="True", reason="r", message=text, last_transition_time=at
        )
        return MetadataQuorumStatus(conditions=[condition])

    calm, older = saying("a majority confirms"), saying(f"a majority; {OLDER_QUORUM} confirm 3")
    (reported,) = status_events(older, calm)
    assert (reported.kind, reported.reason) == ("Warning", "OlderQuorum")
    assert status_events(older, older) == []
    assert status_events(calm, older) == []
