"""Fetch and ListOffsets of consumers and followers, right and wrong: a stock broker and ours answer with the same codes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from uuid import UUID

import pytest

from quorum_node.protocol import broker_apis
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from quorum_node.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from quorum_node.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorum_node.records.batches import Record, encode_batch
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

STOCK, OURS = 101, 201
STALE, FUTURE = 0, 1 << 40
MESSAGES = 3


@dataclass(frozen=True)
class FetchCase:
    """One fetch. `fetcher`: None is the follower of the partition; `last_epoch` and `leader_epoch`: relative to the leader's."""

    version: int = 18
    fetcher: int | None = -1
    broker_epoch: int = -1
    leader_epoch: int | None = None
    offset: int = 0
    last_epoch: int | None = None
    session: tuple[int, int] = (0, -1)
    topic: str = "t"
    partition: int = 0
    to_follower: bool = False
    isolation: int = 0


FETCHES = [
    *(FetchCase(version, fetcher) for version in (4, 10, 11, 14, 15, 18) for fetcher in (-1, -2)),
    *(FetchCase(fetcher=fetcher, offset=MESSAGES + 1) for fetcher in (-2, -1, None)),
    *(
        FetchCase(version, fetcher, leader_epoch=epoch, to_follower=to_follower)
        for version in (10, 11, 18)
        for fetcher in (-1, -2, None, 77)
        for epoch in (None, -1, 0, 1)
        for to_follower in (False, True)
    ),
    *(FetchCase(version, None) for version in (4, 8, 9, 14)),
    *(
        FetchCase(fetcher=None, broker_epoch=broker_epoch, leader_epoch=0, offset=offset, last_epoch=epoch)
        for broker_epoch in (-1, STALE, FUTURE)
        for offset in (0, MESSAGES, MESSAGES + 1)
        for epoch in (None, -1, 0, 1)
    ),
    *(FetchCase(offset=offset, last_epoch=epoch) for offset in (0, 9) for epoch in (-1, 0, 1)),
    *(
        FetchCase(offset=offset, last_epoch=epoch, leader_epoch=leader_epoch, topic=topic, isolation=1)
        for offset in (0, 9)
        for epoch in (None, -1, 0)
        for leader_epoch in (None, 1)
        for topic in ("t", "unknown")
    ),
    *(FetchCase(session=(a, b)) for a in (0, 5) for b in (-2, -1, 0, 1)),
    *(FetchCase(version, fetcher, topic="unknown") for version in (12, 18) for fetcher in (-1, None)),
    *(FetchCase(version, fetcher, partition=9) for version in (12, 18) for fetcher in (-1, None)),
]  # fmt: skip


class BrokerPair:
    """A stock broker and ours; each leads a copy of the topic that the other one follows."""

    def __init__(self, ours: PythonBrokers, stock: JavaBrokers) -> None:
        self._addresses = {
            STOCK: ("127.0.0.1", stock.brokers[STOCK].port),
            OURS: ("127.0.0.1", ours.nodes[OURS].port),
        }
        self._ids: dict[int, UUID] = {}
        self.epochs: dict[int, int] = {}
        for leader, follower in ((STOCK, OURS), (OURS, STOCK)):
            name = f"t-{leader}"
            self._ids[leader] = ours.create_topic_at(OURS, name, [leader, follower], [OURS])
            wait_until(lambda name=name: ours.isr(name, OURS) == {STOCK, OURS}, "in sync", 60)  # type: ignore[misc]
            found = ours.metadata(OURS, [name])
            assert found is not None
            self.epochs[leader] = found.topics[0].partitions[0].leader_epoch

    def answer(self, leader: int, requested: FetchCase) -> tuple[object, ...]:
        """Codes, the diverging epoch, and whether there are records, a leader, and a list of aborted transactions."""
        follower = STOCK if leader == OURS else OURS
        epoch = self.epochs[leader]
        by_id = requested.version >= 13
        known = requested.topic == "t"
        partition = FetchPartition(
            partition=requested.partition,
            current_leader_epoch=-1
            if requested.leader_epoch is None
            else epoch + requested.leader_epoch,
            fetch_offset=requested.offset,
            last_fetched_epoch=-1 if requested.last_epoch is None else epoch + requested.last_epoch,
            log_start_offset=0,
            partition_max_bytes=1 << 20,
        )
        topic = FetchTopic(
            topic="" if by_id else f"{requested.topic}-{leader}",
            topic_id=(self._ids[leader] if known else UUID(int=99)) if by_id else None,
            partitions=(partition,),
        )
        fetcher = follower if requested.fetcher is None else requested.fetcher
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=requested.isolation,
            topics=(topic,),
            session_id=requested.session[0],
            session_epoch=requested.session[1],
        )
        if requested.version >= 15:
            state = ReplicaState(replica_id=fetcher, replica_epoch=requested.broker_epoch)
            body = replace(body, replica_state=state)
        else:
            body = replace(body, replica_id=fetcher)
        address = self._addresses[follower if requested.to_follower else leader]
        found = ask(address, broker_apis.DATA_FETCH, requested.version, body, 20)
        assert isinstance(found, FetchResponse)
        if found.error_code:
            return (found.error_code,)
        each = found.responses[0].partitions[0]
        end = each.diverging_epoch
        diverging = (end.epoch - epoch, end.end_offset) if end.epoch >= 0 else None
        has_list = each.aborted_transactions is not None
        has_leader = each.current_leader.leader_id >= 0
        return each.error_code, diverging, bool(each.records), has_leader, has_list

    def offset(
        self,
        leader: int,
        replica_id: int,
        timestamp: int,
        epoch: int,
        *,
        to_follower: bool,
        version: int = 10,
    ) -> tuple[int, ...]:
        """Error code and offset. `epoch`: relative to the leader's, -1 is none."""
        requested = ListOffsetsPartition(
            partition_index=0,
            current_leader_epoch=-1 if epoch < 0 else self.epochs[leader] + epoch,
            timestamp=timestamp,
        )
        topic = ListOffsetsTopic(name=f"t-{leader}", partitions=(requested,))
        body = ListOffsetsRequest(replica_id=replica_id, topics=(topic,))
        follower = STOCK if leader == OURS else OURS
        address = self._addresses[follower if to_follower else leader]
        found = ask(address, broker_apis.LIST_OFFSETS, version, body, 20)
        assert isinstance(found, ListOffsetsResponse)
        each = found.topics[0].partitions[0]
        return each.error_code, each.offset, each.leader_epoch

    def _is_followed(self, leader: int) -> bool:
        found = self.answer(leader, FetchCase(to_follower=True))
        return len(found) > 1 and bool(found[2])

    def write(self) -> None:
        """The same messages into both copies; returns when followers know that they are committed."""
        records = [Record(None, b"v") for _ in range(MESSAGES)]
        data = encode_batch(base_offset=0, leader_epoch=-1, timestamp_ms=-1, records=records)
        for leader in (STOCK, OURS):
            topic = TopicProduceData(
                topic_id=self._ids[leader],
                partition_data=(PartitionProduceData(index=0, records=data),),
            )
            body = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=(topic,))
            answer = ask(self._addresses[leader], broker_apis.PRODUCE, 13, body, 30)
            assert isinstance(answer, ProduceResponse)
            assert not answer.responses[0].partition_responses[0].error_code, answer
            wait_until(lambda leader=leader: self._is_followed(leader), "it is followed", 60)  # type: ignore[misc]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    root = tmp_path_factory.mktemp("fetched")
    with (
        LocalQuorum(root / "quorum", 1) as quorum,
        PythonBrokers(quorum, root / "ours", 1) as ours,
    ):
        quorum.form()
        with JavaBrokers.on(quorum, root / "stock", 1) as stock:
            stock.start()
            ours.start()
            stock.wait_for([STOCK, OURS])
            found = BrokerPair(ours, stock)
            found.write()
            yield found


def test_fetches_get_a_stock_brokers_codes(pair: BrokerPair) -> None:
    differences = []
    answers = set()
    for requested in FETCHES:
        theirs, mine = (pair.answer(leader, requested) for leader in (STOCK, OURS))
        answers.add(theirs)
        if theirs != mine:
            differences.append(f"{requested}\n  stock {theirs}\n  ours  {mine}")
    assert not differences, "\n".join(differences)
    assert {each[0] for each in answers} == {0, 1, 3, 6, 70, 75, 100}


def test_list_offsets_gets_a_stock_brokers_codes(pair: BrokerPair) -> None:
    differences = []
    answers = set()
    for case in product((-1, -2, 77), (-5, -4, -3, -2, -1, 0, 5), (-1, 0, 1), (False, True)):
        replica_id, timestamp, epoch, to_follower = case
        theirs, mine = (
            pair.offset(leader, replica_id, timestamp, epoch, to_follower=to_follower)
            for leader in (STOCK, OURS)
        )
        answers.add(theirs)
        if theirs != mine:
            differences.append(f"{case}\n  stock {theirs}\n  ours  {mine}")
    assert not differences, "\n".join(differences)
    assert {each[0] for each in answers} == {0, 6, 75}


def test_special_timestamps_get_a_stock_brokers_codes_in_each_version(pair: BrokerPair) -> None:
    differences = []
    seen = set()
    for version, timestamp, epoch in product((4, 5, 6, 7, 8, 9, 10, 11), range(-7, 1), (-1, 1)):
        theirs, mine = (
            pair.offset(leader, -1, timestamp, epoch, to_follower=False, version=version)
            for leader in (STOCK, OURS)
        )
        seen.add(theirs[0])
        if theirs != mine:
            case = version, timestamp, epoch
            differences.append(f"{case}\n  stock {theirs}\n  ours  {mine}")
    assert not differences, "\n".join(differences)
    assert seen == {0, 35, 75}
