"""What real processes count: the draft's whole table, scraped from a leader and its followers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorum_node.server.observing.metric_specs import SPECS
from support.local_quorum import LocalQuorum, wait_until
from support.patience import PATIENT

Sample = tuple[str, str]
WRITES = 40


def scrape(quorum: LocalQuorum, node_id: int) -> dict[Sample, float]:
    """(name without prefix, own label value) to value, of one node."""
    answer = quorum.answered("GET", "/metrics", node_id)
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            own = [v for k, v in sample.labels.items() if k not in ("partition", "le")]
            found[sample.name.removeprefix("metadata_quorum_"), "".join(own)] = sample.value
    return found


def idle_leader(quorum: LocalQuorum, node_id: int) -> dict[Sample, float] | None:
    """The values of a leader whose own disk has all commits: the followers may be faster."""
    found = scrape(quorum, node_id)
    flushed = found["local_fsync_latency_seconds_count", ""]
    return found if flushed >= found["commit_latency_seconds_count", ""] else None


def waiting_follower(quorum: LocalQuorum, node_id: int) -> dict[Sample, float] | None:
    """The values of a follower whose fetch waits at the leader, as it does most of the time."""
    found = scrape(quorum, node_id)
    return found if found["outbound_channel_size", ""] > 0 else None


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[LocalQuorum]:
    with LocalQuorum(tmp_path) as quorum:
        quorum.form()
        yield quorum


@pytest.mark.requirement("K595-28")
def test_metrics_endpoint_has_every_documented_metric_with_correct_values(
    make_quorum: Callable[..., LocalQuorum],
) -> None:
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    for number in range(WRITES):
        quorum.put("k", str(number))
    leader_id = quorum.wait_leader()
    followers = [node_id for node_id in quorum.nodes if node_id != leader_id]
    leader = wait_until(lambda: idle_leader(quorum, leader_id), "the leader's disk has all commits")
    follower = wait_until(lambda: waiting_follower(quorum, followers[0]), "its fetch waits")

    for samples in (leader, follower):
        names = {name for name, _ in samples}
        table = {s.name.removeprefix("metadata_quorum_") for s in SPECS if s.draft}
        assert table - {"error_responses_per_second"} <= names, (
            "error_responses_per_second exists only after an error"
        )
        assert samples["leader_id", ""] == leader_id
        assert samples["voters", ""] == 3
        assert samples["voter_connections", ""] == 2
        assert 0 < samples["idle_ratio", ""] <= 1
        assert samples["log_end_epoch", ""] == samples["leader_epoch", ""]
    assert (leader["role", "leader"], follower["role", "follower"]) == (1, 1)

    # A commit, end to end and in its parts, on the leader alone.
    commits = leader["commit_latency_seconds_count", ""]
    assert WRITES <= commits == leader["local_fsync_latency_seconds_count", ""]
    remote = leader["replication_latency_seconds_sum", ""]
    assert 0 < remote <= leader["commit_latency_seconds_sum", ""]
    assert leader["replication_latency_avg_seconds", ""] > 0
    assert (
        leader["replication_latency_avg_seconds", ""]
        <= leader["replication_latency_max_seconds", ""]
    )
    assert leader["apply_latency_seconds_count", ""] > 0
    assert follower["commit_latency_seconds_count", ""] == 0
    assert follower["apply_latency_seconds_count", ""] > 0

    # Records: clients append to the leader, followers fetch.
    assert leader["records_appended_per_second", ""] > 0
    assert leader["records_fetched_per_second", ""] == 0
    assert follower["records_fetched_total", ""] >= WRITES
    assert follower["records_appended_total", ""] == 0

    # Peers, by their ids and in both directions.
    for node_id in followers:
        assert leader["inbound_requests_per_second", str(node_id)] > 0
    assert follower["outbound_requests_per_second", str(leader_id)] > 0

    # Requests: the total is the sum of its parts.
    total = leader["request_total_time_seconds_sum", "Fetch"]
    parts = ("request_queue_time", "request_handle_time", "response_queue_time")
    assert total == pytest.approx(sum(leader[f"{p}_seconds_sum", "Fetch"] for p in parts))
    assert leader["request_total_time_avg_seconds", "Fetch"] > 0


@pytest.mark.requirement("K595-28")
def test_metrics_show_an_election_and_an_unreachable_peer(quorum: LocalQuorum) -> None:
    quorum.put("k", "v")
    dead = quorum.leader
    dead.kill()
    survivors = [node_id for node_id in quorum.nodes if node_id != dead.id]

    def elected() -> int | None:
        found = [n for n in survivors if scrape(quorum, n)["role", "leader"] == 1]
        return found[0] if found else None

    leader_id = wait_until(elected, "another leader")

    def misses_the_dead_one() -> dict[Sample, float] | None:
        """It may have been elected before its own requests to the dead one have failed."""
        found = scrape(quorum, leader_id)
        failed = found.get(("error_responses_per_second", str(dead.id)), 0) > 0
        return found if failed and found["voter_connections", ""] == 1 else None

    found = wait_until(misses_the_dead_one, "it counts errors of the dead one, and connections")
    assert found["elections_won_total", ""] >= 1
    assert found["election_latency_seconds_count", ""] >= 1
    assert (
        found["election_latency_max_seconds", ""] >= found["election_latency_avg_seconds", ""] > 0
    )
