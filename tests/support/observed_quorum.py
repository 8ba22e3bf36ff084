"""What an operator observes of a sound quorum, for tests of its planner.

Members are `q-1-1`, `q-2-1` and so on, with the replica UUIDs `u1`, `u2`; the first one leads, unless a test says otherwise.
"""

from collections.abc import Sequence
from dataclasses import replace

from quorum_operator.planner.object_facts import Templates
from quorum_operator.planner.observed import (
    ClaimFacts,
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    QuorumView,
    ReplicaView,
    StorageChoice,
    VolumeFacts,
    Wanted,
)

NOW = 1_000_000.0
MADE_AT = NOW - 1000
STORAGE = StorageChoice("1Gi", None)


def sound_pod(node_id: int, made_at: float = MADE_AT, **changes: object) -> PodFacts:
    """The running pod of a member."""
    found = PodFacts(f"q-{node_id}-1-0", f"pod-{node_id}", made_at, restart_hash="r")
    return replace(found, **changes)  # type: ignore[arg-type]


def sound_member(node_id: int, made_at: float = MADE_AT, **changes: object) -> Incarnation:
    """A member on the volume `pvN` of the host `hN`."""
    name = f"q-{node_id}-1"
    found = Incarnation(
        node_id=node_id,
        number=1,
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        created_at=made_at,
        formation=1,
        storage=STORAGE,
        uuid=f"u{node_id}",
        template_hash="t",
        pod=sound_pod(node_id, made_at),
        claim=ClaimFacts(f"data-{name}-0", "c", volume=f"pv{node_id}"),
        volume=VolumeFacts(f"pv{node_id}", hosts=(f"h{node_id}",)),
        report=NodeReport(f"u{node_id}", "c1", "follower", True, True, "ok"),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def view_of(voters: Sequence[ReplicaView], **changes: object) -> QuorumView:
    """A confirmed description of these voters, without observers."""
    found = QuorumView(
        cluster_id="c1",
        leader=Key(1, "u1"),
        epoch=4,
        voters=tuple(voters),
        observers=(),
        voters_offset=9,
        voters_epoch=3,
        voters_committed=True,
        pending_change=False,
        own_epoch_committed=True,
        formed=True,
        initial_voters=len(voters),
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def observation_of(
    members: Sequence[Incarnation],
    view: QuorumView | None = None,
    *,
    size: int | None = None,
    **changes: object,
) -> Observation:
    """Of a quorum that has as many voters as are wanted: `size`, by default the number of members."""
    size = len(members) if size is None else size
    found = Observation(
        now=NOW,
        name="q",
        generation=1,
        wanted=Wanted(size, STORAGE),
        identities=(Identity(1, "c1", 1, "u1", size, formed=True),),
        incarnations=tuple(members),
        templates={each.name: Templates("t", "r") for each in members},
        view=view,
    )
    return replace(found, **changes)  # type: ignore[arg-type]
