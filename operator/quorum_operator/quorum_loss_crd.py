"""`status.quorumLoss` of a MetadataQuorum: the state of a quorum without a majority."""

from pydantic import Field

from quorum_operator.crd_model import CrdModel


class ReplicaAtLoss(CrdModel):
    """One replica of a lost quorum."""

    id: int = Field(description="Node id.")
    uuid: str | None = Field(default=None, description="Directory id.")
    voter: bool = Field(description="Whether it was a voter in the last confirmed voter set.")
    pod: str | None = Field(default=None, description="Name of its pod.")
    pvc: str | None = Field(default=None, description="Name of its claim.")
    volume: str | None = Field(default=None, description="PersistentVolume behind the claim.")
    lost: str | None = Field(default=None, description="Why it does not answer; absent if it does.")
    epoch: int | None = Field(default=None, description="Epoch of the last record in its log.")
    end_offset: int | None = Field(default=None, description="End offset of its log.")
    committed_offset: int | None = Field(default=None, description="High watermark that it knows.")


class RecoveryOffer(CrdModel):
    """The survivor of a lost quorum with the longest log."""

    id: int = Field(description="Its node id.")
    uuid: str = Field(description="Its directory id.")
    epoch: int = Field(description="Epoch of the last record in its log.")
    end_offset: int = Field(description="End offset of its log.")


class QuorumLossStatus(CrdModel):
    """A quorum without a majority: which replicas answer, which do not, and what to do."""

    message: str = Field(description="Description of the loss, and what to do.")
    replicas: list[ReplicaAtLoss] = Field(description="All known replicas.")
    offer: RecoveryOffer | None = Field(
        default=None, description="Value that spec.recovery needs for a recovery with loss of data."
    )
    no_offer: str | None = Field(default=None, description="Why no recovery is offered.")
