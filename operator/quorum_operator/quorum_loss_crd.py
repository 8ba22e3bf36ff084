"""`status.quorumLoss` of a MetadataQuorum: what is known of a quorum without a majority."""

from pydantic import Field

from quorum_operator.crd_model import CrdModel


class ReplicaAtLoss(CrdModel):
    """What is known of one replica while the quorum is lost."""

    id: int
    uuid: str | None = None
    voter: bool
    pod: str | None = None
    pvc: str | None = None
    volume: str | None = None
    lost: str | None = Field(default=None, description="Why it does not answer; it does without.")
    epoch: int | None = Field(default=None, description="Epoch of the last record in its log.")
    end_offset: int | None = Field(default=None, description="Where its log ends.")
    committed_offset: int | None = Field(
        default=None, description="Where what it knows to be committed ends."
    )


class RecoveryOffer(CrdModel):
    """The survivor of a lost quorum with the longest log."""

    id: int
    uuid: str
    epoch: int
    end_offset: int


class QuorumLossStatus(CrdModel):
    """A quorum without a majority: who answers, who does not, and what to do."""

    message: str
    replicas: list[ReplicaAtLoss]
    offer: RecoveryOffer | None = Field(
        default=None, description="What spec.recovery has to say for a recovery with loss of data."
    )
    no_offer: str | None = Field(default=None, description="Why nothing is offered.")
