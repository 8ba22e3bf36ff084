"""Real processes, and an attacker on the controller port who sends any well-formed request."""

import json
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.protocol import elections as el
from quorum_node.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import (
    APIS,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    UPDATE_RAFT_VOTER,
    VOTE,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.frames import decode_request, encode_response
from quorum_node.protocol.voters import KRaftVersionFeature, UpdateRaftVoterRequest, VoterListener
from quorum_node.records.identity import parse_uuid
from quorum_node.storage.meta_properties import read_meta_properties, write_meta_properties
from quorum_node.storage.quorum_state import QuorumStateFile
from support.accepting import serve_each
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask
from support.patience import PATIENT

TOPIC = "__cluster_metadata"
INT32_MAX = 2**31 - 1


class FalseLeader:
    """Says that it serves every API, and counts the fetches that it gets; it answers none of them."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.fetches = 0
        serve_each(self._listener, self._serve)

    def close(self) -> None:
        self._listener.close()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while size := stream.read(4):
            request = decode_request(stream.read(struct.unpack(">i", size)[0]))
            if isinstance(request.body, FetchRequest):
                self.fetches += 1
            if not isinstance(request.body, ApiVersionsRequest):
                continue
            keys = tuple(
                ApiVersion(
                    api_key=api.key, min_version=api.min_version, max_version=api.max_version
                )
                for api in APIS.values()
            )
            answer = ApiVersionsResponse(error_code=0, api_keys=keys)
            connection.sendall(
                encode_response(request.api, request.version, request.correlation_id, answer)
            )


@pytest.fixture
def false_leader() -> Iterator[FalseLeader]:
    leader = FalseLeader()
    yield leader
    leader.close()


def uuid_of(quorum: LocalQuorum, node: LocalNode) -> UUID:
    return parse_uuid(quorum.local(node.id)["replicaUuid"])


def begin(quorum: LocalQuorum, node: LocalNode, leader_id: int, epoch: int, port: int) -> int:
    part = el.BeginQuorumEpochRequestPartition(
        partition_index=0,
        voter_directory_id=uuid_of(quorum, node),
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    body = el.BeginQuorumEpochRequest(
        cluster_id=quorum.cluster_id,
        voter_id=node.id,
        topics=(el.BeginQuorumEpochRequestTopic(topic_name=TOPIC, partitions=(part,)),),
        leader_endpoints=(el.LeaderEndpoint(name="CONTROLLER", host="127.0.0.1", port=port),),
    )
    answer = ask((node.host, node.port), BEGIN_QUORUM_EPOCH, 1, body)
    assert isinstance(answer, el.BeginQuorumEpochResponse)
    assert answer.error_code == 0
    return answer.topics[0].partitions[0].error_code


def vote(quorum: LocalQuorum, node: LocalNode, other: LocalNode, epoch: int, pre: bool) -> int:
    part = el.VoteRequestPartition(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=other.id,
        replica_directory_id=uuid_of(quorum, other),
        voter_directory_id=uuid_of(quorum, node),
        last_offset_epoch=epoch - 1,
        last_offset=1 << 40,
        pre_vote=pre,
    )
    topic = el.VoteRequestTopic(topic_name=TOPIC, partitions=(part,))
    body = el.VoteRequest(cluster_id=quorum.cluster_id, voter_id=node.id, topics=(topic,))
    answer = ask((node.host, node.port), VOTE, 2, body)
    assert isinstance(answer, el.VoteResponse)
    return answer.topics[0].partitions[0].error_code


def end(quorum: LocalQuorum, node: LocalNode, leader_id: int, epoch: int) -> int:
    candidates = tuple(
        el.PreferredCandidate(candidate_id=each.id, candidate_directory_id=uuid_of(quorum, each))
        for each in (node, *(other for other in quorum.nodes.values() if other is not node))
    )
    part = el.EndQuorumEpochRequestPartition(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_candidates=candidates,
    )
    body = el.EndQuorumEpochRequest(
        cluster_id=quorum.cluster_id,
        topics=(el.EndQuorumEpochRequestTopic(topic_name=TOPIC, partitions=(part,)),),
    )
    answer = ask((node.host, node.port), END_QUORUM_EPOCH, 1, body)
    assert isinstance(answer, el.EndQuorumEpochResponse)
    return answer.topics[0].partitions[0].error_code


def saved(node: LocalNode) -> dict[str, int]:
    path = node.data_dir / f"{TOPIC}-0" / "quorum-state"
    document: dict[str, int] = json.loads(path.read_text())
    return document


@pytest.mark.requirement("K595-07", "K595-11", "K595-12")
def test_requests_of_an_unknown_node_do_not_affect_a_quorum(
    make_quorum, false_leader: FalseLeader
) -> None:
    """Epochs at the end of int32, leaders that lead nothing: same leader, same epoch, writes go on."""
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    leader, epoch = quorum.leader, quorum.local(quorum.leader.id)["leaderEpoch"]
    for node in quorum.nodes.values():
        other = next(each for each in quorum.nodes.values() if each not in (node, leader))
        for far in (INT32_MAX, INT32_MAX - 1, epoch + (1 << 20)):
            for pre in (False, True):
                assert vote(quorum, node, other, far, pre) == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert end(quorum, node, other.id, far) == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert begin(quorum, node, other.id, far, false_leader.port) != 0
        for claimed in (77, *quorum.nodes):
            assert begin(quorum, node, claimed, epoch + 1, false_leader.port) != 0
        assert end(quorum, node, -1, epoch) != 0
        assert end(quorum, node, -1, epoch + 1) != 0
        assert end(quorum, node, 77, epoch + 1) != 0
        quorum.put("after", str(node.id))
    time.sleep(1)  # what was sent has had its time to do harm
    assert quorum.leader is leader
    assert {saved(node)["leaderEpoch"] for node in quorum.nodes.values()} == {epoch}
    assert false_leader.fetches == 0
    assert quorum.get("after") == "3"


@pytest.mark.requirement("K853-07")
def test_voter_entry_rejects_foreign_and_unreachable_addresses(make_quorum) -> None:
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    leader, follower = quorum.leader, quorum.followers[0]
    before = quorum.describe()["voters"]

    def update(voter: LocalNode, host: str, port: int, epoch: int) -> int:
        listeners = tuple(
            VoterListener(name=name, host=host, port=port) for name in ("CONTROLLER", "ADMIN")
        )
        body = UpdateRaftVoterRequest(
            cluster_id=quorum.cluster_id,
            current_leader_epoch=epoch,
            voter_id=voter.id,
            voter_directory_id=uuid_of(quorum, voter),
            listeners=listeners,
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=0, max_supported_version=1
            ),
        )
        answer = ask((leader.host, leader.port), UPDATE_RAFT_VOTER, 0, body)
        return int(answer.error_code)  # type: ignore[attr-defined]

    epoch = quorum.local(leader.id)["leaderEpoch"]
    places = (("", 9093), ("127.0.0.1", 0), ("\0", 9093), ("a" * 30_000, 9093), ("1.2.3.256", 1))
    for place in places:
        for reported in (epoch, -1):
            assert update(follower, *place, reported) == ErrorCode.INVALID_REQUEST
    assert update(leader, "127.0.0.1", 9, epoch) == ErrorCode.INVALID_REQUEST
    assert update(follower, "127.0.0.1", 9, -1) == ErrorCode.FENCED_LEADER_EPOCH
    assert update(follower, "127.0.0.1", 9, epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert quorum.describe()["voters"][0]["endpoints"] == before[0]["endpoints"]
    assert [v["endpoints"] for v in quorum.describe()["voters"]] == [v["endpoints"] for v in before]


@pytest.mark.requirement("K595-05", "K595-20")
def test_voter_with_the_directory_of_another_cluster_stops(make_quorum) -> None:
    """Its files are consistent, but belong to another cluster."""
    quorum = make_quorum(3, formed=True)
    node = quorum.followers[0]
    node.kill()
    meta = read_meta_properties(node.data_dir)
    assert meta is not None
    write_meta_properties(node.data_dir, replace(meta, cluster_id="another"))
    file = QuorumStateFile(node.data_dir / f"{TOPIC}-0", meta.directory_id)
    state = file.load()
    assert state is not None
    file.save(replace(state, cluster_id="another"))
    node.overrides["cluster.id"] = "another"
    node.start()
    assert node.wait_exit() == ExitCode.IDENTITY_MISMATCH, node.log_text[-3000:]
    message = json.loads(node.termination_message)
    assert message["reason"] == "IdentityMismatch"
    assert "is refused by" in message["message"]
    quorum.put("others", "go on")


@pytest.mark.requirement("K595-03", "K595-19")
def test_leader_is_saved_in_quorum_state_after_an_election(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    quorum.leader.kill()
    quorum.put("after", "an election")

    def all_have_saved_it() -> bool:
        """The leader of the present: on a busy machine there may be another election."""
        now = quorum.describe()
        files = [saved(node) for node in quorum.nodes.values() if node.is_running]
        found = {(each["leaderId"], each["leaderEpoch"]) for each in files}
        return found == {(now["leaderId"], now["leaderEpoch"])}

    wait_until(all_have_saved_it, "the leader is saved")
