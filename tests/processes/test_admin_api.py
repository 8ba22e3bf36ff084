"""The admin API over real nodes: who answers what, tokens, where the leader is, reads and appends."""

import json
import math
import socket
import threading
from datetime import datetime
from itertools import pairwise

import httpx
import pytest

from quorum_node.api import (
    ErrorCode,
    LogPage,
    NodeDescription,
    QuorumDescription,
    VoterHistory,
)
from quorum_node.protocol import apis
from quorum_node.protocol.describe import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from quorum_node.protocol.errors import ErrorCode as WireError
from support.ctl import Ctl
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.patience import PATIENT

NO_PARTITION = {"topic": "no", "partition": 0, "replicas": [1]}


def test_json_documents_match_the_models(shared_quorum: LocalQuorum) -> None:
    """The fields of one answer are consistent; on a busy machine the next answer may be of another leader."""
    quorum = shared_quorum
    for node in quorum.nodes.values():
        get = lambda path, node=node: quorum.request("GET", path, node.id).content  # noqa: E731
        local = NodeDescription.model_validate_json(get("/v1/node"))
        assert (local.node_id, local.cluster_id) == (node.id, quorum.cluster_id)
        assert (local.role.value == "leader") == (local.leader_id == node.id)
        assert [e.port for e in local.endpoints] == [node.port, node.admin_port]
        confirmed = QuorumDescription.model_validate(quorum.describe())
        assert confirmed.confirmed
        assert confirmed.node_id == confirmed.leader_id
        own = QuorumDescription.model_validate_json(get("/v1/quorum"))
        assert own.node_id == node.id
        assert [v.id for v in own.voters] == [1, 2, 3]
        leads = own.leader_id == node.id
        assert all((v.log_end_offset >= 0) == leads for v in own.voters)
        LogPage.model_validate_json(get("/v1/log"))
        VoterHistory.model_validate_json(get("/v1/voter-history"))
        assert quorum.request("GET", "/openapi.json", node.id).status_code == 200


def test_leader_accepts_writes_and_any_node_serves_linearizable_reads(
    shared_quorum: LocalQuorum,
) -> None:
    quorum = shared_quorum
    for node in quorum.nodes.values():
        path = f"/v1/configs/topic/t/from-{node.id}"
        answer = quorum.answered("PUT", path, json={"value": "v"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["endOffset"] == answer.json()["offset"] + 1
        for reader in quorum.nodes.values():
            read = quorum.answered("GET", path, reader.id)
            assert read.json()["value"] == "v"
            assert read.json()["offset"] >= answer.json()["endOffset"]


@pytest.mark.requirement("K595-29")
def test_batch_append_is_atomic_and_contiguous(shared_quorum: LocalQuorum) -> None:
    quorum = shared_quorum
    entry = {"resourceType": "topic", "resourceName": "batch", "value": "v"}
    entries = [{**entry, "name": f"k{n}"} for n in range(50)]
    answer = quorum.answered("POST", "/v1/append", json={"entries": entries})
    result = answer.json()
    assert result["endOffset"] - result["offset"] == 50
    # It returned after the commit: a majority has it, and the leader shows it.
    assert quorum.describe()["highWatermark"] >= result["endOffset"]
    path = f"/v1/log?fromOffset={result['offset']}&maxRecords=50"
    page = quorum.answered("GET", path, quorum.leader.id)
    names = [record["fields"]["name"] for record in page.json()["records"]]
    assert names == [f"k{n}" for n in range(50)]
    # A repeat is harmless, and null deletes.
    assert quorum.answered("POST", "/v1/append", json={"entries": entries}).status_code == 200
    gone = [{**each, "value": None} for each in entries]
    assert quorum.answered("POST", "/v1/append", json={"entries": gone}).status_code == 200
    listed = quorum.answered("GET", "/v1/configs?prefix=topic/batch/", quorum.leader.id).json()
    assert listed["entries"] == []
    assert quorum.answered("GET", "/v1/configs/topic/batch/k0").status_code == 404


def test_leader_accepts_reassignments_and_any_node_describes_partitions(
    shared_quorum: LocalQuorum,
) -> None:
    quorum = shared_quorum
    answer = quorum.answered("POST", "/v1/reassignments", json={"partitions": [NO_PARTITION]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["refused"][0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    for node in quorum.nodes.values():
        body = {"partitions": [{"topic": "no", "partition": 0}]}
        answer = quorum.answered("POST", "/v1/reassignments/describe", node.id, json=body)
        assert (answer.json()["partitions"], answer.json()["moving"]) == ([], 0)
        assert quorum.request("GET", "/v1/reassignments", node.id).json()["partitions"] == []


def test_partition_number_with_thousands_of_digits_is_an_invalid_request(
    shared_quorum: LocalQuorum,
) -> None:
    answer = shared_quorum.request("GET", f"/v1/quorum?partition={'9' * 5000}")
    assert (answer.status_code, answer.json()["code"]) == (422, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("length", "status"), [(32_767, 200), (32_768, 400)], ids=["longest", "too long"]
)
def test_text_that_a_stock_node_could_not_replay_is_rejected(
    shared_quorum: LocalQuorum, length: int, status: int
) -> None:
    """Stock nodes read strings of at most 32,767 bytes from the log, and end at a longer one."""
    text = "x" * length
    for path, body in (
        ("/v1/configs/topic/long/k", {"value": text}),
        (f"/v1/configs/topic/long/{text}", {"value": "v"}),
    ):
        answer = shared_quorum.answered("PUT", path, json=body)
        assert answer.status_code == status, answer.text[-300:]
    entry = {"resourceType": "topic", "resourceName": text, "name": "k", "value": "v"}
    answer = shared_quorum.answered("POST", "/v1/append", json={"entries": [entry]})
    assert answer.status_code == status, answer.text[-300:]


def test_oversized_batch_is_rejected_as_a_whole(shared_quorum: LocalQuorum) -> None:
    entry = {"resourceType": "topic", "resourceName": "big", "value": "x" * 30_000}
    entries = [{**entry, "name": f"k{n}"} for n in range(200)]
    answer = shared_quorum.answered("POST", "/v1/append", json={"entries": entries})
    assert (answer.status_code, answer.json()["code"]) == (413, ErrorCode.TOO_LARGE)
    assert shared_quorum.answered("GET", "/v1/configs/topic/big/k0").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/configs/topic/t/k", {"value": "v"}),
        ("POST", "/v1/append", {"entries": []}),
        ("POST", "/v1/resign", None),
        ("DELETE", "/v1/voters/1/AAAAAAAAAAAAAAAAAAAAAQ", None),
        ("POST", "/v1/reassignments", {"partitions": [NO_PARTITION]}),
        ("POST", "/v1/reassignments/describe", {"partitions": [{"topic": "no", "partition": 0}]}),
    ],
)
@pytest.mark.parametrize("token", [None, "wrong", "Bearer", "Basic test-token"])
def test_changes_require_the_token(
    shared_quorum: LocalQuorum, method: str, path: str, body: object, token: str | None
) -> None:
    entries = {"entries": [{"resourceType": "topic", "resourceName": "", "name": "n", "value": ""}]}
    body = entries if path.endswith("append") else body
    headers = {} if token is None else {"Authorization": token}
    with httpx.Client(trust_env=False, verify=False) as client:
        for node in shared_quorum.nodes.values():
            answer = client.request(method, node.admin_url + path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, ErrorCode.UNAUTHORIZED)
        reading = client.get(shared_quorum.leader.admin_url + "/v1/quorum")
        assert reading.status_code == 200


@pytest.mark.requirement("K595-15", "K595-22")
def test_stale_client_finds_the_leader_in_one_round_trip(shared_quorum: LocalQuorum) -> None:
    quorum = shared_quorum
    leader, follower = quorum.leader, quorum.followers[0]
    answer = quorum.request("PUT", "/v1/configs/topic/t/k", follower.id, json={"value": "v"})
    assert (answer.status_code, answer.json()["code"]) == (421, ErrorCode.NOT_LEADER)
    assert answer.json()["leaderId"] == leader.id
    assert answer.json()["leaderUrl"] == leader.admin_url
    part = DescribeQuorumRequestPartition(partition_index=0)
    topic = DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=(part,))
    response = ask(
        ("127.0.0.1", follower.port),
        apis.DESCRIBE_QUORUM,
        2,
        DescribeQuorumRequest(topics=(topic,)),
    )
    refused = response.topics[0].partitions[0]
    assert refused.error_code == WireError.NOT_LEADER_OR_FOLLOWER
    assert (refused.leader_id, refused.leader_epoch) == (
        leader.id,
        quorum.describe()["leaderEpoch"],
    )


LEADER_ONLY = [
    ("PUT", "/v1/configs/topic/t/k", {"value": "v"}),
    (
        "POST",
        "/v1/append",
        {"entries": [{"resourceType": "topic", "resourceName": "t", "name": "n", "value": "v"}]},
    ),
    ("POST", "/v1/resign", None),
    ("POST", "/v1/alter-quorum", {"targetVoters": [1, 2]}),
    ("DELETE", "/v1/alter-quorum", None),
    ("DELETE", "/v1/voters/9/AAAAAAAAAAAAAAAAAAAAAQ", None),
    ("POST", "/v1/reassignments", {"partitions": [NO_PARTITION]}),
    ("GET", "/v1/quorum?confirmed=true", None),
]


def test_follower_does_not_forward_requests_to_the_address_in_the_log(make_quorum) -> None:
    with UncontactedListener() as stranger:
        quorum = make_quorum(2, properties=PATIENT)
        elsewhere = f"http://127.0.0.1:{stranger.port}"
        quorum.nodes[1].overrides["admin.advertised.listener"] = elsewhere
        quorum.form()
        if quorum.leader.id != 1:
            quorum.request("POST", "/v1/resign", json={"successorId": 1})
            wait_until(lambda: quorum.wait_leader() == 1, "node 1 leads")
        wait_until(
            lambda: quorum.request("GET", "/v1/node", 2).json()["leaderId"] == 1, "node 2 follows"
        )
        for method, path, body in LEADER_ONLY:
            reported = quorum.request(method, path, 2, json=body)
            assert (reported.status_code, reported.json()["code"]) == (421, ErrorCode.NOT_LEADER), (
                path
            )
            assert (reported.json()["leaderId"], reported.json()["leaderUrl"]) == (1, elsewhere)
        requested = {"QUORUMCTL_ADMIN": quorum.nodes[2].admin_url}
        assert "--trust" in Ctl(quorum).run("put", "topic/t/k", "v", code=1, **requested)
        assert stranger.calls == 0
        # With the host trusted quorumctl goes there, and only then.
        Ctl(quorum).run("put", "topic/t/k", "v", "--trust", "127.0.0.1", code=1, **requested)
        assert stranger.calls > 0


class UncontactedListener:
    """Listens where the leader does not; counts who connects."""

    def __enter__(self) -> "UncontactedListener":
        self.calls = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def _count(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.calls += 1
            connection.close()


@pytest.mark.requirement("K595-22")
def test_describe_quorum_over_kafka_protocol(make_quorum) -> None:
    quorum = make_quorum(2, initial_voters=1, formed=True)
    wait_until(lambda: quorum.registered().keys() == {1, 2}, "nothing more is written")
    part = DescribeQuorumRequestPartition(partition_index=0)
    topic = DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=(part,))
    address, request = ("127.0.0.1", quorum.nodes[1].port), DescribeQuorumRequest(topics=(topic,))

    def caught_up():
        """With the high watermark over HTTP before and after: a controller may write at any time."""
        before = quorum.describe()["highWatermark"]
        found = ask(address, apis.DESCRIBE_QUORUM, 2, request).topics[0].partitions[0]
        ends = [each.log_end_offset for each in found.observers]
        reported = (before, found, quorum.describe()["highWatermark"])
        return reported if ends == [found.high_watermark] else None

    before, found, after = wait_until(caught_up, "the observer has everything")
    assert (found.leader_id, found.error_code) == (1, 0)
    assert 0 < before <= found.high_watermark <= after
    assert [r.replica_id for r in found.current_voters] == [1]
    observer = found.observers[0]
    assert observer.replica_id == 2
    assert observer.last_fetch_timestamp_ms >= observer.last_caught_up_timestamp_ms > 1.6e12


SECOND_WAITS_SECONDS = 0.1
"""How long the second in the line of successors leaves the election to the first."""


def first_campaign(quorum, leader) -> tuple[int, float]:
    """Who campaigned first after the last resignation of the leader, and how many seconds later.

    Only candidates that were named successors count, which need no pre-vote. A voter with an election timeout before it is
    named requests a pre-vote, and may win.
    """
    (*_, resigned) = times_of(leader, "resigned")
    campaigns = [
        (at, node.id)
        for node in quorum.nodes.values()
        for at in campaigns_of_successor(node)
        if at >= resigned
    ]
    if not campaigns:
        return -1, math.inf
    at, first = min(campaigns)
    return first, at - resigned


def campaigns_of_successor(node) -> list[float]:
    entries = [each for each in map(json.loads, node.log_text.splitlines()) if "role" in each]
    return [
        datetime.fromisoformat(entry["at"]).timestamp()
        for before, entry in pairwise(entries)
        if entry["role"] == "candidate" and before["role"] != "prospective"
    ]


def times_of(node, *roles: str) -> list[float]:
    entries = map(json.loads, node.log_text.splitlines())
    return [
        datetime.fromisoformat(entry["at"]).timestamp()
        for entry in entries
        if entry.get("role") in roles
    ]


def test_resigned_leader_is_followed_by_its_preferred_successor(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    for _ in range(30):
        leader = quorum.leader
        wanted = quorum.followers[-1].id
        answer = quorum.answered("POST", "/v1/resign", json={"successorId": wanted})
        assert answer.status_code == 200, answer.text
        wait_until(lambda leader=leader: quorum.wait_leader() != leader.id, "another leads")
        first, seconds = first_campaign(quorum, leader)
        if seconds < SECOND_WAITS_SECONDS:
            break  # else the machine was busy, and another one could have been first
    assert first == wanted
    quorum.put("k", "v")
    answer = quorum.answered("POST", "/v1/resign", json={"successorId": 99})
    assert answer.json()["code"] == ErrorCode.VOTER_NOT_FOUND
