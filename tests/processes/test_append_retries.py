"""An append that times out on real nodes: the answer waits for the commit, and a retry leaves what one would (K595-29)."""

import pytest

from support.local_quorum import LocalQuorum, wait_until
from support.patience import PATIENT

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K595-29")]

ENTRIES = [
    {"resourceType": "topic", "resourceName": "t", "name": name, "value": "new"} for name in "abc"
]


def values(quorum: LocalQuorum, node_id: int) -> list[str | None]:
    """What a replica has applied of the three."""
    found: list[str | None] = []
    for name in "abc":
        path = f"/v1/configs/topic/t/{name}?consistency=local"
        answer = quorum.answered("GET", path, node_id)
        found.append(answer.json().get("value"))
    return found


def test_retry_after_a_timeout_is_idempotent(make_quorum) -> None:
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    quorum.put("a", "old")
    leader, followers = quorum.leader, quorum.followers
    for node in followers:
        node.freeze()
    body = {"entries": ENTRIES, "timeoutMs": 700}
    answer = quorum.answered("POST", "/v1/append", leader.id, json=body)
    assert (answer.status_code, answer.json()["code"]) == (504, "TIMED_OUT")
    assert values(quorum, leader.id) == ["old", None, None], "the batch was committed"
    for node in followers:
        node.thaw()

    def retried() -> int | None:
        again = quorum.request("POST", "/v1/append", json={"entries": ENTRIES, "timeoutMs": 5000})
        return again.json()["endOffset"] if again is not None and again.is_success else None

    end = wait_until(retried, "the retry is committed")
    for node_id in quorum.nodes:
        wait_until(
            lambda node_id=node_id: quorum.local(node_id)["state"]["appliedOffset"] >= end,
            f"node {node_id} has applied it",
        )
        assert values(quorum, node_id) == ["new"] * 3
    written = [
        (record["fields"]["name"], record["fields"]["value"])
        for record in quorum.log_records(quorum.leader.id)
        if record["type"] == "ConfigRecord" and record["fields"]["name"] in {"a", "b", "c"}
    ]
    batch = [(name, "new") for name in "abc"]
    assert written in ([("a", "old"), *batch], [("a", "old"), *batch, *batch]), "whole batches"
