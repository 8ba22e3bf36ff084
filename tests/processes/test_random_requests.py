"""Well-formed requests that no stock client sends, to brokers and controllers: each is answered, and no process ends.

`RANDOM_REQUESTS_SEED` selects another sequence in the short set; the long set plays several.
"""

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from quorum_node.protocol import apis, broker_apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.join_group import JoinGroupResponse
from quorum_node.protocol.produce import ProduceRequest
from quorum_node.schema.schema import Message
from support.local_quorum import LocalNode, LocalQuorum
from support.one_request import ask
from support.python_brokers import PythonBrokers, running_brokers
from support.random_messages import RandomMessages

SEED = int(os.environ.get("RANDOM_REQUESTS_SEED", "1"))
SHORT, LONG = 1500, 40_000
ANSWER_TIMEOUT_S = 30.0
"""Longer than any wait that a request can ask for: see `KNOWN`."""
KNOWN: Mapping[str, Sequence[Any]] = {
    "timeout_ms": (0, 1, 100),
    "max_wait_ms": (0, 1, 100),
    "session_timeout_ms": (6000, 10_000),
    "rebalance_timeout_ms": (0, 100),
    "acks": (-1, 1),
}
"""Values of fields: often enough for a request to pass the first checks."""
VOTERS_CHANGE = ("AddRaftVoter", "RemoveRaftVoter", "AlterQuorum", "UnregisterBroker")
"""APIs that change, on purpose, what the test talks to."""
NO_TOPIC_AGAIN = "DeleteTopics"


class RequestLog:
    """Random requests; a failure lists the last ones."""

    def __init__(self, seed: int, known: Mapping[str, Sequence[Any]]) -> None:
        self.rng = random.Random(seed)
        self.known = {**KNOWN, **known}
        self._messages = RandomMessages(self.rng, self.known)
        self._newest: list[tuple[int, str, int, Message]] = []

    def one(self, node: LocalNode, among: Sequence[Api]) -> Message | None:
        """One random request of a random API and version. Fails if it has no answer."""
        api = self.rng.choice(among)
        version = self.rng.randint(api.min_version, api.max_version)
        body = self._messages.message(api.request, version)
        if isinstance(body, ProduceRequest) and not body.acks:
            body = replace(body, acks=1)  # Without acks there is no answer to wait for.
        self._newest = [*self._newest[-3:], (node.id, api.name, version, body)]
        try:
            return ask((node.host, node.port), api, version, body, ANSWER_TIMEOUT_S)
        except OSError as error:
            pytest.fail(f"{error!r} after {self._newest}\n{node.log_text[-2000:]}")

    def all_run(self, nodes: Sequence[LocalNode]) -> None:
        """No process has ended."""
        ended = [node for node in nodes if not node.is_running]
        assert not ended, (self._newest, [node.log_text[-3000:] for node in ended])


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonBrokers]:
    properties = {
        "offsets_topic_replication_factor": "1",
        "offsets_topic_num_partitions": "2",
        "group_initial_rebalance_delay_ms": "0",
    }
    with running_brokers(tmp_path_factory.mktemp("random"), 2, **properties) as made:
        yield made


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    with LocalQuorum(tmp_path_factory.mktemp("random-quorum"), nodes=3) as made:
        made.form()
        yield made


def ask_brokers(brokers: PythonBrokers, seed: int, times: int) -> None:
    topics = {f"t{seed}": [201, 202], f"c{seed}": [201]}
    ids = [brokers.create_topic(name, on, 2) for name, on in topics.items()]
    members = [""]
    names, partitions = [*topics, "missing"], (0, 0, 1, 2)
    requested = RequestLog(
        seed,
        {
            **dict.fromkeys(("topic", "name", "topic_name", "topic_names"), names),
            **dict.fromkeys(("index", "partition", "partition_index", "partitions"), partitions),
            **dict.fromkeys(("partition_indexes", "partition_id"), partitions),
            **dict.fromkeys(("group", "group_id", "groups", "key", "coordinator_keys"), ("g", "h")),
            **dict.fromkeys(("broker_id", "replica_id", "node_id", "broker_ids"), (201, 202, -1)),
            **dict.fromkeys(("offset", "fetch_offset", "committed_offset"), (0, 1, 5, -1)),
            **dict.fromkeys(("leader_epoch", "current_leader_epoch"), (0, -1, 1)),
            "topic_id": ids,
            "groups_names": ("g", "h"),
            "member_id": members,
            "protocol_type": ("consumer",),
            "generation_id": (0, 1, 2),
            "producer_id": (0, 1, 1000),
            "producer_epoch": (0, 1),
            "transactional_id": ("x",),
        },
    )
    served = [
        each
        for each in broker_apis.BROKER_APIS.values()
        if each.name not in (*VOTERS_CHANGE, NO_TOPIC_AGAIN)
    ]
    for _ in range(times):
        answer = requested.one(brokers.nodes[requested.rng.choice((201, 202))], served)
        if isinstance(answer, JoinGroupResponse) and answer.member_id not in members:
            members[1:] = [*members[1:][-4:], answer.member_id]
    requested.all_run(list(brokers.nodes.values()))


def ask_controllers(quorum: LocalQuorum, seed: int, times: int) -> None:
    reported = quorum.describe()
    epochs = [reported["leaderEpoch"], reported["leaderEpoch"] + 1]
    log = ("__cluster_metadata",)
    requested = RequestLog(
        seed,
        {
            **dict.fromkeys(("topic", "name", "topic_name"), log),
            **dict.fromkeys(("index", "partition", "partition_index", "partition_id"), (0,)),
            **dict.fromkeys(("replica_id", "voter_id", "candidate_id", "leader_id"), (1, 2, 3, 4)),
            **dict.fromkeys(
                ("epoch", "leader_epoch", "replica_epoch", "last_fetched_epoch"), epochs
            ),
            "cluster_id": (reported["clusterId"],),
            "topic_id": (UUID(int=1),),
            "fetch_offset": (0, 1, 10),
        },
    )
    served = [each for each in apis.APIS.values() if each.name not in VOTERS_CHANGE]
    nodes = list(quorum.nodes.values())
    for _ in range(times):
        requested.one(requested.rng.choice(nodes), served)
    requested.all_run(nodes)
    assert {each["id"] for each in quorum.describe()["voters"]} == {1, 2, 3}


def restarted(brokers: PythonBrokers) -> None:
    """What they have written can be opened again after kill -9."""
    for node in brokers.nodes.values():
        node.kill()
    brokers.start()


@pytest.mark.timeout(300)
def test_brokers_answer_each_random_request(brokers: PythonBrokers) -> None:
    ask_brokers(brokers, SEED, SHORT)
    restarted(brokers)


@pytest.mark.timeout(300)
def test_controllers_answer_each_random_request(quorum: LocalQuorum) -> None:
    ask_controllers(quorum, SEED, SHORT)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_random_requests_are_answered(
    brokers: PythonBrokers, quorum: LocalQuorum, seed: int
) -> None:
    ask_brokers(brokers, seed, LONG)
    restarted(brokers)
    ask_controllers(quorum, seed, LONG)
