"""Images that the active controller made of records before these were committed, so that replay need not make them again.

Owns which image belongs to which range of the log, and when it may be used. Must not know who decides, nor when a record is committed: it
is queried when replay reaches a batch, so no state is visible earlier than without it (K631-03).

An image is used only where replay would give an equal one: the committed image is the same object that the decision started with, and the
batch has the offsets and the epoch under which exactly these records were committed. Everything else is replayed, as on a standby.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.transactions import BOUNDARIES
from quorum_node.records.metadata import (
    AnyMetadata,
    ConfigRecord,
    PartitionChangeRecord,
    decode_metadata,
)

LOSSLESS = frozenset((ConfigRecord, PartitionChangeRecord))
"""The most frequent record types. Encoding them at any feature level loses no field that a decision sets."""


class Step(NamedTuple):
    """`after` is `before` with the records of one append replayed."""

    before: ClusterImage
    after: ClusterImage


class _SpeculativeStep(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    step: Step


class SpeculativeImages:
    """Steps whose records are committed and not applied yet, in the order of the log."""

    def __init__(self) -> None:
        self._steps: deque[_SpeculativeStep] = deque()

    def __len__(self) -> int:
        return len(self._steps)

    def committed(self, base_offset: int, end_offset: int, epoch: int, step: Step) -> None:
        """The records of a step were committed at these offsets."""
        self._steps.append(_SpeculativeStep(base_offset, end_offset, epoch, step))

    def clear(self) -> None:
        """Drop all steps: everything is replayed from here on."""
        self._steps.clear()

    def behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """The image after a batch that follows `image`; None if the batch has to be replayed. Call once for every batch."""
        found, position = image, base_offset
        while self._steps and self._steps[0].base_offset < end_offset:
            each = self._steps.popleft()
            fits = each.base_offset == position and each.epoch == epoch
            if fits and each.step.before is found:
                found, position = each.step.after, each.end_offset
        return found if position == end_offset else None


def are_outside_transactions(records: Iterable[AnyMetadata]) -> bool:
    """Whether the records neither begin nor end a transaction: inside of one, replay would hold them back."""
    return BOUNDARIES.isdisjoint(map(type, records))


def decode_to_same(records: Collection[AnyMetadata], values: Collection[bytes]) -> bool:
    """Whether decoding these values gives these records. Values of `LOSSLESS` types are not decoded."""
    return LOSSLESS.issuperset(map(type, records)) or all(
        type(record) in LOSSLESS or decode_metadata(data) == record
        for record, data in zip(records, values, strict=True)
    )
