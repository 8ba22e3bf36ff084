"""AlterQuorum with real processes: all three voters are swapped under a writer; cancel; kill -9 half way."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import httpx
import pytest

from quorum_node.api import ErrorCode
from quorum_node.protocol.alter_quorum import (
    AlterQuorumRequest,
    AlterQuorumRequestPartition,
    AlterQuorumRequestTopic,
    AlterQuorumResponse,
    TargetVoter,
)
from quorum_node.protocol.apis import ALTER_QUORUM, DESCRIBE_QUORUM
from quorum_node.protocol.describe import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from quorum_node.protocol.errors import ErrorCode as KafkaError
from support.local_quorum import TOKEN, LocalQuorum, wait_until
from support.one_request import ask
from support.patience import PATIENT

TOPIC = "__cluster_metadata"


class Writer:
    """Writes numbered values, one after another, to any node that answers; records what was acknowledged."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self.acknowledged: set[str] = set()
        self._quorum = quorum
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(30)

    def wait_more(self, count: int = 20) -> None:
        """Until so many more writes were acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, f"{count} more writes")

    def _run(self) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(timeout=3.0, trust_env=False, headers=headers) as client:
            number = 0
            while not self._stop.is_set():
                number += 1
                for node in list(self._quorum.nodes.values()):
                    if node.is_running and self._put(client, node.admin_url, f"v{number}"):
                        self.acknowledged.add(f"v{number}")
                        break

    def _put(self, client: httpx.Client, url: str, value: str) -> bool:
        body = {"value": value, "timeoutMs": 2000}
        try:
            return client.put(f"{url}/v1/configs/topic/t/k", json=body).is_success
        except httpx.TransportError:
            return False


def alter(quorum: LocalQuorum, target: list[Any], **fields: Any) -> dict[str, Any]:
    body = {"targetVoters": target, "timeoutMs": 5000, **fields}
    return quorum._retried("POST", "/v1/alter-quorum", json=body)


def wait_reached(quorum: LocalQuorum, ids: set[int]) -> None:
    def reached() -> bool:
        now = quorum.describe()
        return now["targetVoters"] is None and {v["id"] for v in now["voters"]} == ids

    wait_until(reached, f"the voters are {ids}")


def history(quorum: LocalQuorum, node_id: int) -> list[set[int]]:
    answer = quorum.answered("GET", "/v1/voter-history", node_id)
    sets = [{voter["id"] for voter in entry["voters"]} for entry in answer.json()["history"]]
    return [sets[0]] + [after for before, after in pairwise(sets) if before != after]


def check_nothing_lost(quorum: LocalQuorum, writer: Writer) -> None:
    leader = quorum.leader.id
    written = {
        record["fields"]["value"]
        for record in quorum.log_records(leader)
        if record["type"] == "ConfigRecord"
    }
    assert writer.acknowledged <= written, sorted(writer.acknowledged - written)
    sets = history(quorum, leader)
    assert all(len(before ^ after) == 1 for before, after in pairwise(sets)), sets


@pytest.mark.slow
@pytest.mark.requirement("K595-23")
def test_alter_quorum_replaces_all_three_voters_under_load(make_quorum) -> None:
    quorum = make_quorum(6, initial_voters=3, formed=True)
    for node_id in (4, 5, 6):
        quorum.wait_caught_up(node_id)
    with Writer(quorum).writing() as writer:
        writer.wait_more()
        result = alter(quorum, [4, 5, 6])
        assert result["targetVoters"] == [4, 5, 6]
        assert result["votersPosition"]["committed"]
        wait_reached(quorum, {4, 5, 6})
        writer.wait_more()
    check_nothing_lost(quorum, writer)
    sets = history(quorum, quorum.leader.id)
    swap = sets[sets.index({1, 2, 3}) :]
    assert [len(each) for each in swap] == [3, 4, 3, 4, 3, 4, 3], swap
    for node_id in (1, 2, 3):
        wait_until(lambda n=node_id: not quorum.local(n)["isVoter"], f"{node_id} is an observer")
        quorum.nodes[node_id].kill()
    quorum.put("k2", "the new ones are a quorum of their own")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.requirement("K595-23")
def test_alter_quorum_survives_a_killed_leader_and_a_changed_target(make_quorum) -> None:
    quorum = make_quorum(6, initial_voters=3, formed=True)
    quorum.nodes[5].kill()
    quorum.nodes[6].kill()
    quorum.wait_caught_up(4)
    with Writer(quorum).writing() as writer:
        alter(quorum, [4, 5, 6])
        wait_until(lambda: len(quorum.voter_ids()) == 3 and 4 in quorum.voter_ids(), "4 is in")
        described = quorum.describe()
        assert [target["id"] for target in described["targetVoters"]] == [4, 5, 6]
        waits = "not caught up as an observer yet: (5, ?), (6, ?)"
        wait_until(lambda: waits in quorum.describe()["plan"], "the plan says what it waits for")
        single = quorum.answered("DELETE", f"/v1/voters/4/{quorum.local(4)['replicaUuid']}")
        assert (single.status_code, single.json()["code"]) == (409, ErrorCode.ALTERATION_PENDING)
        killed = quorum.leader
        killed.kill()
        quorum.nodes[5].start()
        wait_until(lambda: 5 in quorum.voter_ids(), "the next leader goes on")
        alter(quorum, [2, 4, 5])
        killed.start()
        wait_reached(quorum, {2, 4, 5})
        writer.wait_more()
    check_nothing_lost(quorum, writer)
    sets = history(quorum, quorum.leader.id)
    assert {1, 2, 3} in sets


@pytest.mark.requirement("K595-24")
def test_alter_quorum_can_be_cancelled_and_repeated_and_rejects_invalid_targets(
    make_quorum,
) -> None:
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    first = alter(quorum, [1, 2, 9])
    again = alter(quorum, [9, 2, 1])
    assert again["votersPosition"] == first["votersPosition"], "the same target writes nothing"
    stale = {"expectedOffset": 0, "expectedEpoch": 1}
    answer = quorum.answered(
        "POST", "/v1/alter-quorum", json={"targetVoters": [1, 2, 8], "timeoutMs": 2000, **stale}
    )
    assert (answer.status_code, answer.json()["code"]) == (409, ErrorCode.STALE_POSITION)
    cancelled = quorum._retried("DELETE", "/v1/alter-quorum")
    assert cancelled["targetVoters"] is None
    assert cancelled["currentVoters"] == [1, 2, 3]
    assert quorum.describe()["targetVoters"] is None
    for target in ([], [1, 1], [-1], ["x"], [{"id": 1, "uuid": "nonsense"}]):
        answer = quorum.answered("POST", "/v1/alter-quorum", json={"targetVoters": target})
        assert answer.status_code in (400, 422), answer.text
        assert answer.json()["message"]
    headers = {"Authorization": "Bearer wrong"}
    for method, body in (("POST", {"targetVoters": [1]}), ("DELETE", None)):
        answer = quorum.answered(method, "/v1/alter-quorum", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, ErrorCode.UNAUTHORIZED)


def on_wire(quorum: LocalQuorum, node_id: int, target: list[int] | None, **fields: Any) -> Any:
    voters = None if target is None else tuple(TargetVoter(voter_id=each) for each in target)
    part = AlterQuorumRequestPartition(partition_index=0, target_voters=voters)
    request = AlterQuorumRequest(
        cluster_id=fields.get("cluster_id", quorum.cluster_id),
        topics=(AlterQuorumRequestTopic(topic_name=TOPIC, partitions=(part,)),),
    )
    answer = ask(("127.0.0.1", quorum.nodes[node_id].port), ALTER_QUORUM, 0, request)
    assert isinstance(answer, AlterQuorumResponse)
    return answer.topics[0].partitions[0]


@pytest.mark.requirement("K595-24", "K595-22", "K595-14", "K595-15")
def test_alter_quorum_works_on_the_kafka_listener(make_quorum) -> None:
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    leader = quorum.leader.id
    follower = next(node.id for node in quorum.followers)
    refused = on_wire(quorum, follower, [1, 2, 9])
    assert refused.error_code == KafkaError.NOT_QUORUM_LEADER
    assert refused.leader_id == leader, "the answer names the leader"
    wrong = on_wire(quorum, leader, [1, 2, 9], cluster_id="another")
    assert wrong.error_code == KafkaError.INVALID_CLUSTER_ID
    done = on_wire(quorum, leader, [1, 2, 9])
    assert (done.error_code, done.error_message) == (0, "")
    assert on_wire(quorum, leader, [1, 2, 9]).voters_offset == done.voters_offset
    part = DescribeQuorumRequestPartition(partition_index=0)
    describe = DescribeQuorumRequest(
        topics=(DescribeQuorumRequestTopic(topic_name=TOPIC, partitions=(part,)),)
    )
    answer = ask(("127.0.0.1", quorum.nodes[leader].port), DESCRIBE_QUORUM, 2, describe)
    assert isinstance(answer, DescribeQuorumResponse)
    seen = answer.topics[0].partitions[0]
    assert [each.replica_id for each in seen.target_voters] == [1, 2, 9]
    assert [each.log_end_offset >= 0 for each in seen.target_voters] == [True, True, False]
    assert on_wire(quorum, leader, None).error_code == 0


@pytest.mark.requirement("K595-24")
def test_alter_quorum_can_be_disabled_on_the_kafka_listener(make_quorum) -> None:
    quorum = make_quorum(1, **{"admin.membership.on.controller.listener": "false"}, formed=True)
    refused = on_wire(quorum, 1, [1, 2])
    assert refused.error_code == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert quorum.describe()["targetVoters"] is None
