"""The description by the leader of the planner's model, and what is known without a leader."""

from typing import TYPE_CHECKING

from quorum_operator.planner.observed import Key, QuorumView, ReplicaView

if TYPE_CHECKING:
    from support.quorum_model import Model


def described_view(model: "Model") -> QuorumView | None:
    """Confirmed by a majority; None otherwise."""
    if model.leader is None or model.leader not in model.live() or not model.has_quorum():
        return None
    index, voters = model.index, model.current_voters()
    others = [
        Key(each.node_id, each.disk.uuid)
        for each in model.sets.values()
        if each.formation == index and model.runs(each) and each.disk.uuid is not None
    ]
    return QuorumView(
        cluster_id=f"c{index}",
        leader=model.leader,
        epoch=model.epoch,
        voters=tuple(replica_view(model, key) for key in voters),
        observers=tuple(replica_view(model, key) for key in others if key not in voters),
        voters_offset=model.offset,
        voters_epoch=model.epoch,
        voters_committed=True,
        pending_change=False,
        own_epoch_committed=True,
        formed=model.formed[index],
        initial_voters=model.identity(index).initial_voters,
        target_voters=model.target,
    )


def replica_view(model: "Model", key: Key) -> ReplicaView:
    each = model.set_of(key)
    if each is not None and each.pod is not None and each.pod.gone_at is not None:
        return ReplicaView(key, True, each.caught_up_at is not None)
    runs = each is not None and model.runs(each)
    return ReplicaView(key, runs, model.is_live(key))


def hinted_voters(model: "Model") -> frozenset[Key] | None:
    """The voters in the log of a running member."""
    voters = model.current_voters()
    someone = any(
        model.runs(each) and each.formation == model.index for each in model.sets.values()
    )
    return frozenset(voters) if someone and voters else None
