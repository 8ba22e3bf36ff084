"""Real processes: voters that move, join, are older, or lead without knowing that they lead no more."""

import pytest

from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import (
    ADD_RAFT_VOTER,
    API_VERSIONS,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
    VOTE,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.features import (
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    VoterListener,
)
from quorum_node.records.identity import parse_uuid
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask
from support.patience import PATIENT
from support.ports import free_ports


def recorded_port(quorum: LocalQuorum, node_id: int) -> int:
    voter = next(v for v in quorum.describe()["voters"] if v["id"] == node_id)
    return next(e["port"] for e in voter["endpoints"] if e["name"] == "CONTROLLER")


def move(node: LocalNode) -> None:
    """Start again on another port, without a notification."""
    node.kill()
    (node.port,) = free_ports(1)
    for key in ("listeners", "advertised.listeners"):
        node.overrides[key] = f"CONTROLLER://127.0.0.1:{node.port}"
    node.start()


@pytest.mark.requirement("K853-07")
def test_voters_that_restart_on_another_port_update_themselves(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    before = [v["uuid"] for v in quorum.describe()["voters"]]
    for number, node in enumerate(list(quorum.nodes.values())):
        move(node)
        quorum.put("while", str(number))
        wait_until(lambda node=node: recorded_port(quorum, node.id) == node.port, "the new port")
        quorum.wait_caught_up(node.id)
    assert [v["uuid"] for v in quorum.describe()["voters"]] == before
    # Each process registers as a controller; a level may change because all three have.
    for node in quorum.nodes.values():
        wait_until(lambda node=node: quorum.registered().get(node.id) == node.port, "registered")
    update = FeatureUpdate(
        feature="group.version", max_version_level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE
    )
    request = UpdateFeaturesRequest(feature_updates=(update,))

    def updated() -> bool:
        answer = ask(("127.0.0.1", quorum.leader.port), UPDATE_FEATURES, 2, request)
        assert isinstance(answer, UpdateFeaturesResponse)
        assert answer.error_code in (0, ErrorCode.NOT_CONTROLLER), answer.error_message
        return answer.error_code == 0

    wait_until(updated, "the leader updates the level")
    # No process listens at an old address any more, so all traffic uses the new ones.
    quorum.leader.kill()
    quorum.put("after", "an election")
    assert quorum.get("while") == "2"


@pytest.mark.requirement("K595-16", "K595-25")
def test_removed_paused_leader_becomes_an_observer(make_quorum) -> None:
    quorum = make_quorum(4, formed=True)
    zombie = quorum.leader
    uuid = quorum.local(zombie.id)["replicaUuid"]
    others = [n for n in quorum.nodes.values() if n is not zombie]
    zombie.freeze()
    try:
        quorum.client.timeout = 1.0
        wait_until(
            lambda: all(quorum.local(n.id)["leaderId"] not in (None, zombie.id) for n in others),
            "the others have a leader",
        )

        def removed() -> bool:
            answers = (
                quorum.request("DELETE", f"/v1/voters/{zombie.id}/{uuid}", each.id)
                for each in others
            )
            return any(
                answer is not None and (answer.is_success or "NOT_FOUND" in answer.text)
                for answer in answers
            )

        wait_until(removed, "the zombie is removed")
    finally:
        zombie.thaw()
    # It still considers itself leader; no voter fetches from it, so it searches for the quorum.
    wait_until(lambda: quorum.local(zombie.id)["role"] == "observer", "the zombie observes")
    assert not quorum.local(zombie.id)["isVoter"]
    end_offset = quorum.put("after", "1")["endOffset"]
    wait_until(
        lambda: quorum.local(zombie.id)["highWatermark"] >= end_offset, "it goes on fetching"
    )


def hand_over(quorum: LocalQuorum, wanted: int) -> None:
    """Until that node leads; a transfer that fails on a busy machine is repeated."""

    def leads() -> bool:
        if quorum.wait_leader() == wanted:
            return True
        quorum.request("POST", "/v1/resign", json={"successorId": wanted})
        return False

    wait_until(leads, f"node {wanted} leads")


@pytest.mark.slow
@pytest.mark.requirement("K650-02")
def test_voter_without_pre_vote_votes_and_receives_votes(make_quorum) -> None:
    """Vote 1, the newest without pre-vote. Vote 0 has no directory ids, and kraft.version 1 requires all to know them."""
    quorum = make_quorum(3)
    older = quorum.nodes[3]
    older.module = "support.older_node"
    quorum.form()
    versions = ask(("127.0.0.1", older.port), API_VERSIONS, 3, ApiVersionsRequest())
    assert isinstance(versions, ApiVersionsResponse)
    assert next(a.max_version for a in versions.api_keys if a.api_key == VOTE.key) == 1

    # With one of three down the other two need each other's vote, in one direction and in the other.
    for wanted, down in ((3, 1), (2, 1), (3, 2), (1, 2)):
        quorum.nodes[down].kill()
        quorum.put("k", f"without {down}")
        hand_over(quorum, wanted)
        quorum.put("k", f"under {wanted}")
        quorum.nodes[down].start()
        quorum.wait_caught_up(down)
    # Without further help: each leader in turn is killed, including the older one.
    for _ in range(2):
        leader = quorum.leader
        leader.kill()
        quorum.put("k", f"after {leader.id}")
        leader.start()
        quorum.wait_caught_up(leader.id)
        hand_over(quorum, older.id)
    assert quorum.get("k") is not None


@pytest.mark.requirement("K853-05")
def test_conditional_writes_work_on_the_kafka_listener(make_quorum) -> None:
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    if quorum.leader.id == 3:
        quorum.request("POST", "/v1/resign")
        wait_until(lambda: quorum.wait_leader() != 3, "another leads")
    leader = quorum.leader
    address = ("127.0.0.1", leader.port)
    position = quorum.describe()["votersPosition"]
    old = parse_uuid(quorum.local(3)["replicaUuid"])
    stale = RemoveRaftVoterRequest(
        voter_id=3, voter_directory_id=old,
        expected_offset=position["offset"] - 1, expected_epoch=position["epoch"],
    )  # fmt: skip
    answer = ask(address, REMOVE_RAFT_VOTER, 0, stale)
    assert isinstance(answer, RemoveRaftVoterResponse)
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert "voters record is at offset" in (answer.error_message or "")

    # Two of three voters live: adding first is possible only if the new replica counts itself.
    quorum.nodes[3].kill()
    quorum.add_node(3).start()
    quorum.wait_caught_up(3)
    new = parse_uuid(quorum.local(3)["replicaUuid"])
    wait_until(
        lambda: not next(v for v in quorum.describe()["voters"] if v["id"] == 3)["fetching"],
        "the dead voter is known to be dead",
    )
    codes = []
    for count_newcomer in (False, True):
        add = AddRaftVoterRequest(
            timeout_ms=5000, voter_id=3, voter_directory_id=new,
            listeners=(VoterListener(name="CONTROLLER", host="127.0.0.1", port=quorum.nodes[3].port),),
            expected_offset=position["offset"], expected_epoch=position["epoch"],
            count_newcomer=count_newcomer,
        )  # fmt: skip
        added = ask(address, ADD_RAFT_VOTER, 1, add, 10)
        assert isinstance(added, AddRaftVoterResponse)
        codes.append(added.error_code)
    assert codes == [ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
    # It was added without an ADMIN endpoint and reports its own.
    wait_until(
        lambda: (
            {e["name"] for e in quorum.describe()["voters"][-1]["endpoints"]}
            == {"CONTROLLER", "ADMIN"}
        ),
        "the new member completes its entry",
    )
    newcomer = quorum.nodes[3].port
    wait_until(lambda: quorum.registered()[3] == newcomer, "the newest key is registered")


def test_node_joins_automatically_once_and_not_after_its_removal(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    node = quorum.add_node(4, **{"controller.quorum.auto.join.enable": "true"})
    node.start()
    wait_until(lambda: 4 in quorum.voter_ids(), "node 4 joins")
    uuid = quorum.local(4)["replicaUuid"]
    quorum.remove_voter(4, uuid)
    end_offset = quorum.put("after", "1")["endOffset"]
    wait_until(lambda: quorum.local(4)["highWatermark"] >= end_offset, "it knows of its removal")
    node.kill()
    node.start()
    quorum.wait_caught_up(4)
    assert 4 not in quorum.voter_ids()
    quorum.add_voter(4)
    assert 4 in quorum.voter_ids()
