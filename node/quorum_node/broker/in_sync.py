"""The ISR of a led partition: what is committed, and what is proposed. PURE.

Owns which replicas the high watermark has to wait for while a change is under way, and what becomes of a proposal.
Must not know who asks the controller.
Source: KIP-497; the replication design V3, "High watermark".

The controller may have taken over a proposal whose answer is still on its way. So until the outcome is known, the
high watermark waits for the *maximal* ISR: all committed members and all proposed ones.
"""

from dataclasses import dataclass, replace

from quorum_node.broker.errors import IsrError


@dataclass(frozen=True, slots=True)
class Proposal:
    """`members`: (broker id, broker epoch). `is_open`: the broker may ask again; else metadata will tell.

    `was_unanswered`: a request for it may have been carried out without this broker hearing of it.
    """

    proposal_id: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]
    is_open: bool = True
    was_unanswered: bool = False

    @property
    def ids(self) -> frozenset[int]:
        """Who would be in the ISR."""
        return frozenset(broker_id for broker_id, _ in self.members)


class InSync:
    """Of one leader epoch."""

    __slots__ = ("_next_id", "committed", "partition_epoch", "proposal")

    def __init__(self, isr: tuple[int, ...], partition_epoch: int, first_id: int) -> None:
        self.committed = frozenset(isr)
        self.partition_epoch = partition_epoch
        self.proposal: Proposal | None = None
        self._next_id = first_id

    @property
    def next_id(self) -> int:
        """Number of the next proposal: no two of one replica have the same."""
        return self._next_id

    @property
    def maximal(self) -> frozenset[int]:
        """Everyone who is in the ISR, or perhaps is already."""
        return self.committed if self.proposal is None else self.committed | self.proposal.ids

    def committed_as(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller's state; False if this is not newer than what is known."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.committed = frozenset(isr)
        self.partition_epoch = partition_epoch
        self.proposal = None
        return True

    def taken(self, proposal_id: int, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller's answer; False if this tells nothing new. It may say that there was nothing to change."""
        if partition_epoch == self.partition_epoch:
            if self.proposal is not None and self.proposal.proposal_id == proposal_id:
                self.proposal = None
            return False
        return self.committed_as(isr, partition_epoch)

    def propose(self, members: tuple[tuple[int, int], ...], leader_epoch: int) -> Proposal:
        """Begin a change; there is none under way."""
        assert self.proposal is None, "one change at a time"
        self.proposal = Proposal(self._next_id, leader_epoch, self.partition_epoch, members)
        self._next_id += 1
        return self.proposal

    def refused(self, proposal_id: int, error: IsrError) -> Proposal | None:
        """What is to be asked again, if anything."""
        proposal = self.proposal
        if proposal is None or proposal.proposal_id != proposal_id or not proposal.is_open:
            return None
        if error is IsrError.UNANSWERED:
            self.proposal = replace(proposal, was_unanswered=True)
            return self.proposal
        if error is IsrError.NOT_ATTEMPTED and proposal.was_unanswered:
            # This refusal says nothing about the request before, which may have been carried out. INELIGIBLE_REPLICA
            # does: the controller looks at the partition epoch first.
            return proposal
        self.proposal = replace(proposal, is_open=False) if error is IsrError.OVERTAKEN else None
        return None
