"""Histories that a node accepts, mostly of eligible leader replicas: few names and ids, which are used again and again; changes that set
eligible leader replicas and changes that do not; and many ClearElr records with and without a name.
"""

from copy import deepcopy
from uuid import UUID

from hypothesis import strategies as st

from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md

NAMES = ("a", "b", "c")
_NUMBERS = range(1, 5)
_PARTITIONS = 2
_BROKERS = st.sampled_from([(), (1,), (2, 3)])
_ELECTABLE = st.one_of(
    st.tuples(_BROKERS, st.none()), st.tuples(st.none(), _BROKERS), st.tuples(_BROKERS, _BROKERS)
)
"""Eligible leader replicas, and the last known ones."""
_CLEARED = st.sampled_from(["", "", *NAMES, *NAMES, "no topic has it"])
_WHAT = st.sampled_from(
    ["clear"] * 4 + ["change"] * 4 + ["elr"] * 4 + ["create", "remove", "partition", "config", "boundary"]
)  # fmt: skip


class _Writer:
    def __init__(self, draw: st.DrawFn, *, transactions: bool) -> None:
        self._draw = draw
        self._transactions = transactions
        self._held: dict[str, int] = {}
        """Name → topic id."""
        self._before: dict[str, int] | None = None
        """The same where the open transaction began."""

    def next(self) -> list[md.MetadataMessage]:
        """Return the next records."""
        what = self._draw(_WHAT)
        if what == "clear":
            return [md.ClearElrRecord(topic_name=self._draw(_CLEARED))]
        if what == "boundary" and self._transactions:
            return [self._boundary()]
        if what == "create" or not self._held:
            return self._created(self._draw(st.sampled_from(NAMES)))
        name = self._draw(st.sampled_from(sorted(self._held)))
        if what == "remove":
            return [self._removed(name)]
        if what == "config":
            value = self._draw(st.sampled_from(["1", "2"]))
            return [md.ConfigRecord(resource_type=TOPIC, resource_name=name, name="k", value=value)]
        partition_id = self._draw(st.integers(0, _PARTITIONS - 1))
        if what == "partition":
            return [self._partition(self._held[name], partition_id)]
        return [self._change(self._held[name], partition_id, tells_elr=what == "elr")]

    def _created(self, name: str) -> list[md.MetadataMessage]:
        """A topic of that name, instead of the one that has it; also with an id that was in use before."""
        removed = [self._removed(name)] if name in self._held else []
        free = [each for each in _NUMBERS if each not in self._held.values()]
        number = self._held[name] = self._draw(st.sampled_from(free))
        return [
            *removed,
            md.TopicRecord(name=name, topic_id=UUID(int=number)),
            *(self._partition(number, each) for each in range(_PARTITIONS)),
        ]

    def _removed(self, name: str) -> md.MetadataMessage:
        return md.RemoveTopicRecord(topic_id=UUID(int=self._held.pop(name)))

    def _partition(self, number: int, partition_id: int) -> md.MetadataMessage:
        elr, last_known = self._draw(_ELECTABLE)
        return md.PartitionRecord(
            partition_id=partition_id, topic_id=UUID(int=number), replicas=(1, 2, 3), isr=(1,),
            removing_replicas=(), adding_replicas=(), leader=1, leader_epoch=0, partition_epoch=0,
            eligible_leader_replicas=elr, last_known_elr=last_known,
        )  # fmt: skip

    def _change(self, number: int, partition_id: int, *, tells_elr: bool) -> md.MetadataMessage:
        elr, last_known = self._draw(_ELECTABLE) if tells_elr else (None, None)
        return md.PartitionChangeRecord(
            partition_id=partition_id, topic_id=UUID(int=number),
            isr=self._draw(st.sampled_from([None, (1,), (1, 2)])), leader=self._draw(st.integers(-2, 2)),
            eligible_leader_replicas=elr, last_known_elr=last_known,
        )  # fmt: skip

    def _boundary(self) -> md.MetadataMessage:
        if self._before is None:
            self._before = deepcopy(self._held)
            return md.BeginTransactionRecord(name=None)
        before, self._before = self._before, None
        if self._draw(st.booleans()):
            return md.EndTransactionRecord()
        self._held = before
        return md.AbortTransactionRecord(reason=None)


@st.composite
def elr_histories(draw: st.DrawFn, max_size: int = 50, transactions: bool = True) -> list[bytes]:
    """Values of a log."""
    writer = _Writer(draw, transactions=transactions)
    records = [record for _ in range(draw(st.integers(10, max_size))) for record in writer.next()]
    return [md.encode_metadata(each, each.HIGHEST_VERSION) for each in records]
