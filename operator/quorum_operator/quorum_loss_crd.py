"""`status.quorumLoss` of a MetadataQuorum: what is known of a quorum without a majority."""

from pydantic import Field

from quorum_operator.crd_model import CrdModel


class ReplicaAtLoss(CrdModel):
    """What is known of one replica while the quorum is lost."""

    id: int = Field(description="Node id.")
    uuid: str | None = Field(default=None, description="Directory id.")
    voter: bool = Field(description="It was a voter, as last confirmed.")
    pod: str | None = Field(default=None, description="Name of its pod.")
    pvc: str | None = Field(default=None, description="Name of its claim.")
    volume: str | None = Field(default=None, description="PersistentVolume behind the claim.")
    lost: str | None = Field(default=None, description="Why it does not answer; it does without.")
    epoch: int | None = Field(default=None, description="Epoch of the last record in its log.")
    end_offset: int | None = Field(default=None, description="Where its log ends.")
    committed_offset: int | None = Field(
        default=None, description="Where what it knows to be committed ends."
    )


class RecoveryOffer(CrdModel):
    """The survivor of a lost quorum with the longest log."""

    id: int = Field(description="Its node id.")
    uuid: str = Field(description="Its directory id.")
    epoch: int = Field(description="Epoch of the last record in its log.")
    end_offset: int = Field(description="Where its log ends.")


class QuorumLossStatus(CrdModel):
    """A quorum without a majority: who answers, who does not, and what to do."""

    message: str = Field(description="What is lost, and what to do.")
    replicas: list[ReplicaAtLoss] = Field(description="All replicas that are known.")
    offer: RecoveryOffer | None = Field(
        default=None, description="What spec.recovery has to say for a recovery with loss of data."
    )
    no_offer: str | None = Field(default=None, description="Why nothing is offered.")
