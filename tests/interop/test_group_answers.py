"""Invalid requests about groups, records and producers: a stock broker and ours answer the same bytes with the same codes."""

from collections.abc import Callable, Iterator

import pytest

from quorum_node.protocol import broker_apis, create_topics
from quorum_node.protocol.apis import CREATE_TOPICS
from quorum_node.protocol.offset_fetch import (
    OffsetFetchRequest,
)
from support.answered_codes import codes
from support.invalid_group_requests import (
    OFFSETS,
    UNKNOWN_ID,
    Case,
    Names,
    administration,
    commits,
    commits_of_unknown_groups,
    fetches,
    group_of,
    joins,
    members,
    partitions,
)
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

STOCK, OURS = 101, 201


class Both:
    """The two brokers."""

    def __init__(self, ours: PythonBrokers, stock: JavaBrokers) -> None:
        self._addresses = {
            STOCK: ("127.0.0.1", stock.brokers[STOCK].port),
            OURS: ("127.0.0.1", ours.nodes[OURS].port),
        }
        ids = {
            leader: ours.create_topic_at(OURS, f"t-{leader}", [leader, other], [OURS])
            for leader, other in ((STOCK, OURS), (OURS, STOCK))
        }
        self._names = {
            broker: Names(
                group_of(place, "group"),
                group_of(1 - place, "group"),
                f"t-{broker}",
                f"t-{other}",
                ids[broker],
            )
            for broker, place, other in ((STOCK, 0, OURS), (OURS, 1, STOCK))
        }

    def answers(self, case: Case) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Codes of the stock broker and of ours."""
        stock, ours = (self._codes(broker, case) for broker in (STOCK, OURS))
        return stock, ours

    def _codes(self, broker: int, case: Case) -> list[tuple[str, int]]:
        api, version, make = case
        names = self._names[broker]
        found = ask(self._addresses[broker], api, version, make(names), 20)
        return [
            (about.replace(names.topic, "t").replace(names.followed, "f"), code)
            for about, code in codes(found)
        ]

    def wait_for_groups(self) -> None:
        """Both coordinators have loaded their partitions."""
        case: Case = (
            broker_apis.OFFSET_FETCH,
            7,
            lambda names: OffsetFetchRequest(group_id=names.group, topics=()),
        )
        for broker in (STOCK, OURS):
            wait_until(
                lambda broker=broker: not any(code for _, code in self._codes(broker, case)),  # type: ignore[misc]
                f"broker {broker} coordinates",
                60,
            )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    root = tmp_path_factory.mktemp("groups")
    settings = {"group_initial_rebalance_delay_ms": "0", "offsets_topic_num_partitions": "2"}
    with (
        LocalQuorum(root / "quorum", 1) as quorum,
        PythonBrokers(quorum, root / "ours", 1, **settings) as ours,
    ):
        quorum.form()
        with JavaBrokers.on(quorum, root / "stock", 1, **settings) as stock:
            stock.start()
            ours.start()
            stock.wait_for([STOCK, OURS])
            places = tuple(
                create_topics.CreatableReplicaAssignment(partition_index=number, broker_ids=(each,))
                for number, each in enumerate((STOCK, OURS))
            )
            topic = create_topics.CreatableTopic(
                name=OFFSETS,
                num_partitions=-1,
                replication_factor=-1,
                assignments=places,
                configs=(
                    create_topics.CreatableTopicConfig(name="cleanup.policy", value="compact"),
                ),
            )
            body = create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)
            ours.ask(OURS, CREATE_TOPICS, body)
            found = Both(ours, stock)
            found.wait_for_groups()
            yield found


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        (joins, {16, 23, 24, 25, 26}),
        (members, {16, 23, 24, 25}),
        (commits, {0, 3, 12, 16}),
        (commits_of_unknown_groups, {22, 69}),
        (fetches, {0, 3, 16, 69, 100}),
        (administration, {0, 16, 24, 42, 69}),
        (partitions, {0, 1, 3, 6, 17}),
    ],
)
def test_invalid_requests_get_the_codes_of_a_stock_broker(
    both: Both, cases: Callable[[], Iterator[Case]], expected: set[int]
) -> None:
    """`expected`: codes of the stock broker, so that more is compared than one error that comes first."""
    differences = []
    seen: set[int] = set()
    for case in cases():
        stock, ours = both.answers(case)
        seen.update(code for _, code in stock)
        if stock != ours:
            api, version, make = case
            body = make(Names("G", "F", "t", "f", UNKNOWN_ID))
            differences.append(f"{api.key} {version} {body}\n  stock {stock}\n  ours  {ours}")
    assert not differences, f"{len(differences)}\n" + "\n".join(differences)
    assert expected <= seen
