"""The image of the committed records of one log, and its end offset. PURE.

Owns the position, and the records of an open transaction. The caller replays records below the high watermark, in
order, once.
"""

from collections.abc import Iterable

from quorum_node.image.changes import ImageChanges
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.transactions import BOUNDARIES, Transactions
from quorum_node.records.config_changes import ConfigChange
from quorum_node.records.metadata import AnyMetadata


class CommittedImage:
    """`image` as of `end_offset` (exclusive). `epoch` and `timestamp_ms` are those of the last batch before."""

    __slots__ = ("_transactions", "end_offset", "epoch", "image", "timestamp_ms")

    def __init__(self) -> None:
        self.image = ClusterImage()
        self._transactions = Transactions()
        self.end_offset = 0
        self.epoch = 0
        self.timestamp_ms = 0

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open: its records are not in the image yet."""
        return self._transactions.is_open

    @property
    def is_whole(self) -> bool:
        """Whether a snapshot of the image would contain everything in the log up to here."""
        return not self.image.left_out and not self._transactions.is_open

    def replay(self, records: Iterable[AnyMetadata]) -> None:
        """Apply records. Those of a transaction are applied when it ends."""
        changes, transactions = ImageChanges(self.image), self._transactions
        held_back = transactions.is_open
        for record in records:
            if held_back or type(record) in BOUNDARIES:
                for each in transactions.take(record):
                    changes.replay(each)
                held_back = transactions.is_open
            else:
                changes.replay(record)
        self.image = changes.finish()

    def replay_configs(self, records: Iterable[ConfigChange]) -> None:
        """`replay` of many config records at once; not within a transaction."""
        assert not self._transactions.is_open, "records of a transaction are held back"
        changes = ImageChanges(self.image)
        changes.configs.set_all(records)
        self.image = changes.finish()

    def take_over(self, image: ClusterImage) -> None:
        """Take over the result of replaying the next records, which was computed elsewhere."""
        self.image = image

    def reached(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        """Everything below `end_offset` was replayed; the last batch had this epoch and time."""
        self.end_offset, self.epoch, self.timestamp_ms = end_offset, epoch, timestamp_ms

    def become(self, other: "CommittedImage") -> None:
        """Replace the whole state by that of `other`, which must not be used any more."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))
