"""What a controller has in its hands is what replay makes of the log.

The image that is applied is, at each offset, the one that the committed records give when they are read one by one.
The pending image of an active controller is that of all that is in its log, once everything that it accepted is there.
"""

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.records.batches import Batch, decode_records, split_batches
from quorum_node.records.metadata import AnyMetadata, decode_metadata
from quorum_node.simulation.cluster import Cluster
from quorum_node.simulation.host import SimulatedHost
from quorum_node.simulation.invariants.invariant import Invariant, Violation

WHOLE_LOG_BYTES = 1 << 20


class PendingIsReplayed(Invariant):
    """Only in histories with a controller."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._committed = CommittedImage()
        self._images: dict[int, ClusterImage] = {0: self._committed.image}
        """By the end offset of each committed batch."""

    def image_applied(self, host: SimulatedHost) -> None:
        assert host.controller is not None
        applied = host.controller.applier.committed
        self._replay(host, applied.end_offset)
        if applied.image != self._images[applied.end_offset]:
            raise Violation(f"{host.address} has another image at {applied.end_offset} than replay")

    def controller_progressed(self, host: SimulatedHost) -> None:
        controller = host.controller
        assert controller is not None
        pending, applied = controller.active.pending, controller.applier.committed
        if pending is None or controller.appends.queued_records:
            return
        if controller.active.epoch != controller.leading_epoch():
            raise Violation(
                f"{host.address} decides in epoch {controller.active.epoch}, which is over"
            )
        changes = CommittedImage()
        changes.image = applied.image
        for batch in _batches(host, applied.end_offset, host.log.end_offset):
            changes.replay(_records(batch))
        if pending != changes.image:
            raise Violation(
                f"{host.address} decides on another state than that of its log, which ends at {host.log.end_offset}"
            )

    def _replay(self, host: SimulatedHost, end_offset: int) -> None:
        committed = self._committed
        if committed.end_offset >= end_offset:
            return
        for batch in _batches(host, committed.end_offset, end_offset):
            header = batch.header
            committed.replay(_records(batch))
            committed.reached(header.end_offset, header.leader_epoch, header.max_timestamp_ms)
            self._images[header.end_offset] = committed.image


def _batches(host: SimulatedHost, start_offset: int, end_offset: int) -> list[Batch]:
    if start_offset >= end_offset:
        return []
    return split_batches(host.log.read(start_offset, WHOLE_LOG_BYTES, end_offset))[0]


def _records(batch: Batch) -> list[AnyMetadata]:
    """By the reference decoder alone."""
    if batch.header.is_control:
        return []
    return [decode_metadata(record.value or b"") for record in decode_records(batch)]
