"""The ISR of a partition on its leader: committed and proposed state. PURE.

Owns which replicas the high watermark waits for during a change, and the result of a proposal. Must not know how the
controller is asked.
Source: KIP-497; the replication design V3, "High watermark". The controller may have accepted a proposal whose
response is still on its way. So until the result is known, the high watermark waits for the *maximal* ISR: all
committed and all proposed members.
"""

from dataclasses import dataclass, replace

from quorum_node.broker.errors import IsrError


@dataclass(frozen=True, slots=True)
class Proposal:
    """`members`: (broker id, broker epoch). `is_open`: the broker may ask again; otherwise metadata will bring the result.

    `was_unanswered`: an earlier request for it may have been carried out without a response.
    """

    proposal_id: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]
    is_open: bool = True
    was_unanswered: bool = False

    @property
    def ids(self) -> frozenset[int]:
        """Ids of the proposed ISR."""
        return frozenset(broker_id for broker_id, _ in self.members)


class InSync:
    """The ISR of one leader epoch."""

    __slots__ = ("_next_id", "committed", "partition_epoch", "proposal")

    def __init__(self, isr: tuple[int, ...], partition_epoch: int, first_id: int) -> None:
        self.committed = frozenset(isr)
        self.partition_epoch = partition_epoch
        self.proposal: Proposal | None = None
        self._next_id = first_id

    @property
    def next_id(self) -> int:
        """Number of the next proposal; unique for a replica."""
        return self._next_id

    @property
    def maximal(self) -> frozenset[int]:
        """All brokers that are in the ISR, or may be already."""
        return self.committed if self.proposal is None else self.committed | self.proposal.ids

    def committed_as(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller's state; False if it is not newer than the known one."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.committed = frozenset(isr)
        self.partition_epoch = partition_epoch
        self.proposal = None
        return True

    def taken(self, proposal_id: int, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller accepted a proposal; False if the state is known already. There may have been nothing to change."""
        if partition_epoch == self.partition_epoch:
            if self.proposal is not None and self.proposal.proposal_id == proposal_id:
                self.proposal = None
            return False
        return self.committed_as(isr, partition_epoch)

    def propose(self, members: tuple[tuple[int, int], ...], leader_epoch: int) -> Proposal:
        """Start a change; no other may be in progress."""
        assert self.proposal is None, "one change at a time"
        self.proposal = Proposal(self._next_id, leader_epoch, self.partition_epoch, members)
        self._next_id += 1
        return self.proposal

    def refused(self, proposal_id: int, error: IsrError) -> Proposal | None:
        """The proposal to be sent again, if any."""
        proposal = self.proposal
        if proposal is None or proposal.proposal_id != proposal_id or not proposal.is_open:
            return None
        if error is IsrError.UNANSWERED:
            self.proposal = replace(proposal, was_unanswered=True)
            return self.proposal
        if error is IsrError.NOT_ATTEMPTED and proposal.was_unanswered:
            # This refusal gives no information about an earlier request, which may have been carried out. INELIGIBLE_REPLICA
            # does, because the controller checks the partition epoch first.
            return proposal
        self.proposal = replace(proposal, is_open=False) if error is IsrError.OVERTAKEN else None
        return None
