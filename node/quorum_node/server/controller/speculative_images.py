"""Images that the active controller has made of records before these were committed: replay need not make them again.

Owns which image stands for which stretch of the log, and when it may be used. Must not know who decides, nor when
something is committed: it is asked when replay comes to a batch, so nothing is seen earlier than without it (K631-03).

An image is used where replay could not give another one: the committed image is the very object that the decision began
with, and offsets and epoch of the batch are those under which exactly these records were committed. Everything else is
replayed, as on every standby.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.transactions import BOUNDARIES
from quorum_node.records.metadata import (
    AnyMetadata,
    PartitionChangeRecord,
    decode_metadata,
)


class Step(NamedTuple):
    """`after` is `before` with the records of one append."""

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
        """Everything is replayed from here on."""
        self._steps.clear()

    def behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """The image behind a batch that comes after `image`; None: it has to be replayed. To be asked of every batch, once."""
        found, position = image, base_offset
        while self._steps and self._steps[0].base_offset < end_offset:
            each = self._steps.popleft()
            fits = each.base_offset == position and each.epoch == epoch
            if fits and each.step.before is found:
                found, position = each.step.after, each.end_offset
        return found if position == end_offset else None


def take_effect_at_once(records: Iterable[AnyMetadata]) -> bool:
    """Whether no transaction begins or ends with them: replay would hold records back."""
    return BOUNDARIES.isdisjoint(map(type, records))


def say_the_same(records: Iterable[AnyMetadata], values: Iterable[bytes]) -> bool:
    """Whether replay will read these records in these values.

    Changes of partitions come by the thousand and have no field that writing could lose (`test_shrink_isr.py`); what
    else is decided is little, and is read again.
    """
    return all(
        isinstance(record, PartitionChangeRecord) or decode_metadata(data) == record
        for record, data in zip(records, values, strict=True)
    )
