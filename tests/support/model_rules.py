"""The rules by which the planner's models check steps, written independently of the planner."""

from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import Key
from support.modelled_pods import Set

MOVES = (
    *(steps.CreateIdentity, steps.CreateMember, steps.ScaleToZero, steps.DeleteIncarnation),
    *(steps.AddVoter, steps.RemoveVoter, steps.TransferLeadership),
)
"""Steps that make, stop, remove or move a member."""


class Unsafe(AssertionError):
    """A step that must never be done in this state."""


def majority(size: int) -> int:
    return size // 2 + 1


def check_unlatching(each: Set, sets: list[Set], voters: list[Key]) -> None:
    """A latch is only removed from a voter whose disk is intact, and while no other replica of its id exists."""
    assert each.failed is not None
    if each.failed.reason not in {"VolumeNotMounted", "PodCannotStart", "HostDeleted"}:
        raise Unsafe(f"{each.name}: {each.failed.reason} was for good")
    if each.disk.state != "ok" or (each.node_id, each.disk.uuid) not in voters:
        raise Unsafe(f"{each.name} is {each.disk.state}, and {voters} vote")
    for other in sets:
        later = other.node_id == each.node_id and other.number > each.number
        if later and other.failed is None and (other.replicas or other.pod is not None):
            raise Unsafe(f"{each.name} is taken back while {other.name} runs")
