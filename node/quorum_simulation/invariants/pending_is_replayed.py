"""The images of a controller equal a replay of the log.

The applied image is, at each offset, that of the committed records read one by one. The speculative image of an
active controller is that of its whole log, once all accepted records are in it.
"""

from bisect import bisect_right
from dataclasses import replace
from itertools import takewhile

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.configs import ConfigKey
from quorum_node.records.batches import Batch, decode_records
from quorum_node.records.metadata import AnyMetadata, ConfigRecord, decode_metadata
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation

WHOLE_EVERY = 64
"""So many comparisons of one process's image look at what is new; the next one at all of it."""


class PendingIsReplayed(Invariant):
    """Only in histories with a controller."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._committed = CommittedImage()
        self._images: dict[int, ClusterImage] = {0: self._committed.image}
        """By the end offset of each committed batch."""
        self._ends: list[int] = [0]
        """These offsets, in order."""
        self._configs: list[list[ConfigRecord]] = [[]]
        """What each of these batches says of configs."""
        self._looked: dict[tuple[str, int], tuple[int, int]] = {}
        """By address and run: up to which offset an image was compared, and how often so far."""

    def image_applied(self, host: SimulatedHost) -> None:
        assert host.controller is not None
        applied = host.controller.applier.committed
        self._replay(host, applied.end_offset)
        looked_to, times = self._looked.get((host.address, host.run), (0, 0))
        self._looked[host.address, host.run] = (applied.end_offset, times + 1)
        expected = self._images[applied.end_offset]
        if times % WHOLE_EVERY == 0:
            is_same = applied.image == expected
        else:
            new = self._configs[
                bisect_right(self._ends, looked_to) : bisect_right(self._ends, applied.end_offset)
            ]
            is_same = _same_but_for_old_configs(applied.image, expected, new)
        if not is_same:
            raise Violation(f"{host.address} has another image at {applied.end_offset} than replay")

    def finished(self) -> None:
        """What was compared in part is compared as a whole."""
        for host in self.cluster.hosts.values():
            if host.up and host.controller is not None:
                self._looked.pop((host.address, host.run), None)
                self.image_applied(host)

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
            records = _records(batch)
            committed.replay(records)
            committed.reached(header.end_offset, header.leader_epoch, header.max_timestamp_ms)
            self._images[header.end_offset] = committed.image
            self._ends.append(header.end_offset)
            self._configs.append([each for each in records if isinstance(each, ConfigRecord)])


def _same_but_for_old_configs(
    left: ClusterImage, right: ClusterImage, new: list[list[ConfigRecord]]
) -> bool:
    """Whether two images are equal, but for values of configs that these records say nothing of.

    Clients write one config after the other, and each comparison would look at all of them.
    """
    if replace(left, configs=right.configs) != right:
        return False
    if len(left.configs.by_resource) != len(right.configs.by_resource):
        return False
    return all(
        left.configs.get(key) == right.configs.get(key)
        and len(left.configs.of(*key[:2])) == len(right.configs.of(*key[:2]))
        for key in (
            ConfigKey(each.resource_type, each.resource_name, each.name)
            for records in new
            for each in records
        )
    )


def _batches(host: SimulatedHost, start_offset: int, end_offset: int) -> list[Batch]:
    if start_offset >= end_offset:
        return []
    following = host.log.batches_from(start_offset)
    return list(takewhile(lambda batch: batch.header.end_offset <= end_offset, following))


def _records(batch: Batch) -> list[AnyMetadata]:
    """By the reference decoder alone."""
    if batch.header.is_control:
        return []
    return [decode_metadata(record.value or b"") for record in decode_records(batch)]
