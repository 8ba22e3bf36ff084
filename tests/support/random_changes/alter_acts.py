"""Acts on the target voters: AlterQuorum requests that bypass the resource."""

import re

from support.random_changes.act import Act, Doing, Drawn, FinalCondition, act
from support.random_changes.operations import Operations, TargetMissing

_PATH = "/v1/alter-quorum"
_ABSENT = 90
"""The id of no member: a target with it is never reached."""
_PASSES = (4.0, 15.0)
_CANCEL = re.compile(
    r"To cancel: kubectl exec (\S+) -- quorumctl (alter --cancel --token-file \S+)"
)


def _cancels(operations: Operations, message: str) -> str:
    """What the condition prints, in the pod that it names, else in the leader's."""
    found = _CANCEL.search(message)
    assert found is not None, message
    pod = found[1] if found[1] != "POD" else _leading_pod(operations)
    words = ("exec", pod, "--", "quorumctl", *found[2].split())
    return (
        f"cancelled the target in {pod}: {operations.kubectl('-n', operations.namespace, *words)}"
    )


def _leading_pod(operations: Operations) -> str:
    described = operations.quorum.describe()
    leader = described.leader_uuid if described is not None else None
    found = [
        each.pod for each in operations.members() if leader is not None and each.uuid == leader
    ]
    if not found:
        raise TargetMissing("no majority confirms a leader")
    return found[0]


_PENDING = FinalCondition("AlterationPending", _CANCEL.pattern, _cancels)
"""Also where nobody leads at the time at which the target is to be cancelled."""


def _voters(operations: Operations) -> list[int]:
    described = operations.quorum.describe()
    if described is None:
        raise TargetMissing("no majority confirms a leader")
    return sorted({each.id for each in described.voters})


def _without_member(operations: Operations, drawn: Drawn) -> str:
    leaving, now = operations.member(drawn).node_id, _voters(operations)
    target = [each for each in now if each != leaving]
    if not target or target == now:
        raise TargetMissing(f"{leaving} is not one of several voters")
    return f"target voters {target}: {operations.admin('POST', _PATH, {'targetVoters': target})}"


@act(destroys=1)
def alter_to_fewer(operations: Operations, drawn: Drawn) -> Doing:
    """Set target voters without one of the members: the resource brings it back."""
    yield _without_member(operations, drawn)


@act(destroys=1, lasts_s=(20.0, 40.0))
def alter_while_host_is_away(operations: Operations, drawn: Drawn) -> Doing:
    """Switch a member's host off, and set target voters without that member."""
    host = operations.host_of(operations.member(drawn))
    with operations.switched_off(host):
        yield f"switched {host} off; {_without_member(operations, drawn)}"


@act(lasts_s=_PASSES, endings=(_PENDING,))
def alter_and_cancel(operations: Operations, drawn: Drawn) -> Doing:
    """Set target voters that can't be reached, and cancel them."""
    target = [*_voters(operations), _ABSENT]
    yield f"target voters {target}: {operations.admin('POST', _PATH, {'targetVoters': target})}"
    operations.admin("DELETE", _PATH)


@act(endings=(_PENDING,))
def alter_to_absent_left(operations: Operations, drawn: Drawn) -> Doing:
    """Set target voters that can't be reached, and leave them so."""
    target = [*_voters(operations), _ABSENT]
    yield f"target voters {target}: {operations.admin('POST', _PATH, {'targetVoters': target})}"


ACTS: tuple[Act, ...] = (
    alter_to_fewer,
    alter_while_host_is_away,
    alter_and_cancel,
    alter_to_absent_left,
)
