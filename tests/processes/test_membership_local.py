"""Forming, growing and shrinking a quorum of real processes while it is written to."""

from itertools import pairwise

import pytest

from quorum_node.api import ErrorCode
from support.local_quorum import LocalQuorum, wait_until
from support.patience import PATIENT


def voter_sets(quorum: LocalQuorum, node_id: int) -> list[set[tuple[int, str]]]:
    answer = quorum.answered("GET", "/v1/voter-history", node_id)
    return [{(v["id"], v["uuid"]) for v in e["voters"]} for e in answer.json()["history"]]


def all_caught_up(quorum: LocalQuorum) -> bool:
    return all(voter["caughtUp"] for voter in quorum.describe()["voters"])


@pytest.mark.requirement("K595-20", "K595-21", "K853-02", "K595-17")
def test_quorum_grows_and_shrinks_one_member_at_a_time(make_quorum) -> None:
    quorum = make_quorum(5, initial_voters=3, formed=True, properties=PATIENT)
    quorum.put("k", "three")
    for node_id in (4, 5):
        quorum.add_voter(node_id)
        quorum.put("k", f"after-{node_id}")
    assert quorum.voter_ids() == [1, 2, 3, 4, 5]
    leader_id = quorum.leader.id
    leaving = [leader_id, next(n for n in (1, 2, 3, 4, 5) if n != leader_id)]
    for node_id in leaving:
        uuid = quorum.local(node_id)["replicaUuid"]
        if node_id == quorum.leader.id:
            assert quorum.answered("POST", "/v1/resign").status_code == 200
            # A new leader treats as live the voters that have fetched from it: before that a removal is unsafe.
            wait_until(lambda: all_caught_up(quorum), "everyone follows the new leader")
        quorum.remove_voter(node_id, uuid)
        quorum.put("k", f"without-{node_id}")
    assert len(quorum.voter_ids()) == 3
    assert quorum.get("k") == f"without-{leaving[-1]}"
    staying = quorum.leader.id
    sets = voter_sets(quorum, staying)
    assert [len(s) for s in sets] == [1, 2, 3, 4, 5, 4, 3]
    assert all(len(a ^ b) == 1 for a, b in pairwise(sets))
    # The log opens with the leader, kraft.version and the voters, before any other write.
    records = list(quorum.log_records(staying))
    assert [r["type"] for r in records[:3]] == ["LeaderChange", "KRaftVersion", "VotersRecord"]
    assert records[2]["fields"]["clusterId"] == quorum.cluster_id
    # A removed voter continues as an observer and still gets every record.
    wait_until(lambda: not quorum.local(leaving[0])["isVoter"], "it knows of its removal")
    wait_until(
        lambda: list(quorum.log_records(leaving[0])) == list(quorum.log_records(staying)),
        "the removed voter has the whole log",
    )


def test_no_client_writes_before_all_initial_voters_have_joined(make_quorum) -> None:
    quorum = make_quorum(3)
    for node in quorum.nodes.values():
        node.start()
    quorum.wait_leader()
    answer = quorum.answered("PUT", "/v1/configs/topic/t/k", json={"value": "v"})
    assert (answer.status_code, answer.json()["code"]) == (409, ErrorCode.NOT_FORMED)
    quorum.add_voter(2)
    answer = quorum.answered("PUT", "/v1/configs/topic/t/k", json={"value": "v"})
    assert (answer.status_code, answer.json()["code"]) == (409, ErrorCode.NOT_FORMED)
    quorum.add_voter(3)
    quorum.put("k", "v")
    for node in quorum.nodes.values():
        node.kill()
    for node in quorum.nodes.values():
        node.start()
    quorum.put("k", "after the restart of all")
    assert quorum.describe()["formed"]


def test_stale_voter_change_has_no_effect(make_quorum) -> None:
    quorum = make_quorum(4, initial_voters=3, formed=True)
    position = quorum.describe()["votersPosition"]
    uuid = quorum.local(3)["replicaUuid"]
    stale = f"?expectedOffset={position['offset'] - 1}&expectedEpoch={position['epoch']}"
    answer = quorum.answered("DELETE", f"/v1/voters/3/{uuid}{stale}")
    assert (answer.status_code, answer.json()["code"]) == (409, ErrorCode.STALE_POSITION)
    assert quorum.describe()["votersPosition"] == position
    same = f"?expectedOffset={position['offset']}&expectedEpoch={position['epoch']}"
    answer = quorum.answered("DELETE", f"/v1/voters/3/{uuid}{same}")
    assert answer.status_code == 200, answer.text
    assert len(quorum.voter_ids()) == 2


def test_voter_that_does_not_run_is_not_added(make_quorum) -> None:
    quorum = make_quorum(4, initial_voters=3, formed=True)
    before = quorum.describe()["votersPosition"]
    node = quorum.nodes[4]
    uuid = quorum.local(4)["replicaUuid"]
    node.kill()
    body = {
        "id": 4,
        "uuid": uuid,
        "endpoints": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": node.port}],
        "timeoutMs": 1000,
    }
    answer = quorum.answered("POST", "/v1/voters", json=body)
    assert answer.status_code in (409, 504), answer.text
    assert quorum.describe()["votersPosition"] == before


@pytest.mark.slow
@pytest.mark.requirement("K853-06")
@pytest.mark.parametrize("order", ["add-first", "remove-first"])
def test_lost_disk_is_replaced_by_a_new_key_of_the_same_id(make_quorum, order: str) -> None:
    quorum = make_quorum(3, formed=True)
    quorum.put("before", "1")
    if quorum.leader.id == 3:
        quorum.request("POST", "/v1/resign")
        wait_until(lambda: quorum.wait_leader() != 3, "another leads")
    old_uuid = quorum.local(3)["replicaUuid"]
    quorum.nodes[3].kill()
    quorum.add_node(3).start()
    quorum.wait_caught_up(3)
    new_uuid = quorum.local(3)["replicaUuid"]
    assert new_uuid != old_uuid
    if order == "add-first":
        quorum.add_voter(3, countNewcomer=True)
        keys = [(v["id"], v["uuid"]) for v in quorum.describe()["voters"]]
        assert keys[-2:] == [(3, old_uuid), (3, new_uuid)]
        quorum.put("during", "2")
        quorum.remove_voter(3, old_uuid)
    else:
        quorum.remove_voter(3, old_uuid)
        quorum.put("during", "2")
        quorum.add_voter(3)
    keys = {(v["id"], v["uuid"]) for v in quorum.describe()["voters"]}
    assert len(keys) == 3
    assert (3, new_uuid) in keys
    assert (3, old_uuid) not in keys
    sets = voter_sets(quorum, quorum.leader.id)
    assert all(len(a ^ b) == 1 for a, b in pairwise(sets))
    assert quorum.get("before") == "1"
    assert quorum.get("during") == "2"
    end_offset = quorum.put("after", "3")["endOffset"]
    wait_until(lambda: quorum.local(3)["highWatermark"] >= end_offset, "the new disk has it all")
    # Its controller may register meanwhile, which is one more record.
    wait_until(
        lambda: list(quorum.log_records(3)) == list(quorum.log_records(quorum.leader.id)),
        "both logs are the same",
    )
