"""Target voters set by another client through AlterQuorum.

Owns the messages, and what continues meanwhile. The operator itself never sets a target. While there is one, the
leader changes voters towards it and refuses single changes (KIP-595, "AlterQuorum"), so the planner changes no voter
until the target is reached or cancelled, and then returns to its spec. Only the successor of a failed disk is
started, as an observer, since it is needed in any case.
"""

from quorum_operator.desired.names import TOKEN_FILE
from quorum_operator.planner.membership import create_new_member
from quorum_operator.planner.observed import QuorumView
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import CreateMember, Step, Wait

RETRY_TARGET_S = 1.0


def hold_for_target(at: Situation) -> Step | None:
    """Wait while there is a target."""
    view = at.view
    if view is None or view.target_voters is None:
        return None
    created = create_new_member(at, successors_only=True)
    if isinstance(created, CreateMember):
        return created
    return Wait(
        f"AlterQuorum is changing the voters to {target_text(view)}: no voter is added, removed or restarted until "
        "the target is reached or cancelled",
        f"target voters set by AlterQuorum; to cancel: {_cancel(at, view)}",
        RETRY_TARGET_S,
    )


def explain(at: Situation, view: QuorumView) -> str:
    """The message: the target, its effect, what to do."""
    return (
        f"the target voters {target_text(view)} were set by AlterQuorum, not by this resource. The operator changes "
        "no voter until they are reached, and then returns to the spec. To cancel:"
        f" {_cancel(at, view)}"
    )


def target_text(view: QuorumView) -> str:
    """The ids, with UUIDs if given."""
    assert view.target_voters is not None
    names = [
        str(each.id) if each.uuid is None else f"{each.id} ({each.uuid})"
        for each in view.target_voters
    ]
    return ", ".join(names)


def _cancel(at: Situation, view: QuorumView) -> str:
    leader = at.by_key.get(view.leader)
    pod = leader.pod.name if leader is not None and leader.pod is not None else "POD"
    return f"kubectl exec {pod} -- quorumctl alter --cancel --token-file {TOKEN_FILE}"
