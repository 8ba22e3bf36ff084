"""Metrics: the text that Prometheus reads, the draft's table, and what "windowed" means."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorum_node.protocol.apis import FETCH, VOTE
from quorum_node.raft.outputs import RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_node.server.observing.commit_times import CommitTimes, ElectionTimes
from quorum_node.server.observing.metric_specs import BY_NAME, SPECS, Derived
from quorum_node.server.observing.metrics import STEP_SECONDS, Metrics
from quorum_node.server.observing.request_times import RequestTimes
from quorum_node.server.observing.tally import MAX_LABELS, OTHERS

DRAFT_TABLE = [
    "CurrentLeader",
    "CurrentEpoch",
    "CurrentVote",
    "LogEndOffset",
    "LogEndEpoch",
    "BootTimestamp",
    "State",
    "NumQuorumVoters",
    "ElectionLatencyMax",
    "ElectionLatencyAvg",
    "ReplicationLatencyMax",
    "ReplicationLatencyAvg",
    "InboundRequestPerSec",
    "OutboundRequestPerSec",
    "InboundChannelSize",
    "OutboundChannelSize",
    "FetchRecordsPerSec",
    "AppendRecordsPerSec",
    "ErrorResponsePerSec",
    "TotalTimeMs",
    "InboundQueueTimeMs",
    "HandleTimeMs",
    "OutboundQueueTimeMs",
    "AvgIdlePercent",
]
CONTROLLER_TABLE = [
    "MetadataLag (KIP-631)",
    "MetadataSnapshotLag (KIP-631)",
    "MetadataCommitLatencyMs (KIP-631)",
    "MetadataCommitRate (KIP-631)",
    "ControllerRequestsRate (KIP-631)",
]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(clock)


def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    """(name without prefix, label values joined by commas) to value."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            labels = ",".join(v for k, v in sample.labels.items() if k != "partition")
            found[sample.name.removeprefix("metadata_quorum_"), labels] = sample.value
    return found


@pytest.mark.requirement("K595-28")
def test_every_metric_of_the_draft_tables_exists() -> None:
    assert {spec.draft for spec in SPECS} - {""} == {*DRAFT_TABLE, *CONTROLLER_TABLE}
    for spec in SPECS:
        if spec.derived is not None:
            source = BY_NAME[spec.source]
            assert source.partition == spec.partition
            assert source.kind != "gauge"
            if spec.derived is Derived.MAX:
                assert source.kind == "histogram"
            if spec.derived in (Derived.RATE, Derived.AVERAGE):
                assert source.label == spec.label


@pytest.mark.requirement("K595-28")
def test_every_metric_is_in_the_prometheus_text(metrics: Metrics) -> None:
    replica = metrics.partition(0)
    for counted in (metrics, replica):
        counted.ask_at_scrape(
            lambda of=counted is replica: {
                name: {"leader": 1.0} if spec.label else 1.0
                for name, spec in BY_NAME.items()
                if spec.kind == "gauge" and not spec.derived and spec.partition is of
            }
        )
        for name, spec in BY_NAME.items():
            if spec.partition is (counted is replica) and spec.label:
                if spec.kind == "counter":
                    counted.count_labelled(name, 3, 2)
                elif spec.kind == "summary":
                    counted.durations_of(name, "Fetch").add(0.5)
    replica.observe("commit_latency_seconds", 0.0007)
    text = metrics.render().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == {spec.name for spec in SPECS}
    for spec in SPECS:
        labels = families[spec.name].samples[0].labels
        assert ("partition" in labels) == spec.partition, spec.name
    found = samples(metrics)
    name = "commit_latency_seconds_bucket"
    assert (found[name, "0.0005"], found[name, "0.001"], found[name, "+Inf"]) == (0, 1, 1)
    assert 'metadata_quorum_inbound_requests_total{source="3"} 2.0' in text


def test_rate_covers_the_last_thirty_seconds(metrics: Metrics, clock: Clock) -> None:
    for _ in range(4):
        metrics.count_labelled("inbound_requests", 2, 50)
        clock.now += STEP_SECONDS
        metrics.step()
    assert samples(metrics)["inbound_requests_per_second", "2"] == pytest.approx(10)
    for _ in range(6):
        clock.now += STEP_SECONDS
        metrics.step()
    assert samples(metrics)["inbound_requests_per_second", "2"] == 0
    assert samples(metrics)["inbound_requests_total", "2"] == 200


@pytest.mark.requirement("K595-28")
def test_average_and_maximum_discard_old_values(metrics: Metrics, clock: Clock) -> None:
    replica = metrics.partition(0)
    replica.observe("replication_latency_seconds", 0.1)
    replica.observe("replication_latency_seconds", 0.3)
    found = samples(metrics)
    assert found["replication_latency_avg_seconds", ""] == pytest.approx(0.2)
    assert found["replication_latency_max_seconds", ""] == pytest.approx(0.3)
    for _ in range(7):
        clock.now += STEP_SECONDS
        metrics.step()
    replica.observe("replication_latency_seconds", 0.01)
    found = samples(metrics)
    assert found["replication_latency_avg_seconds", ""] == pytest.approx(0.01)
    assert found["replication_latency_max_seconds", ""] == pytest.approx(0.01)


def test_channel_size_is_the_time_spent_in_it(metrics: Metrics, clock: Clock) -> None:
    """Little's law: ten requests of 0.2 s in 4 s are half a request at a time."""
    for _ in range(10):
        metrics.durations_of("peer_request_time_seconds", "Fetch").add(0.2)
    clock.now += 4
    assert samples(metrics)["outbound_channel_size", ""] == pytest.approx(0.5)


def test_idle_loop_reports_idle_and_busy_loop_reports_busy(metrics: Metrics, clock: Clock) -> None:
    clock.now += 1000
    assert samples(metrics)["idle_ratio", ""] == pytest.approx(1, abs=0.01)
    metrics.count("loop_busy_seconds", 250)
    assert samples(metrics)["idle_ratio", ""] == pytest.approx(0.75, abs=0.01)


def test_senders_cannot_create_unlimited_labels(metrics: Metrics) -> None:
    for number in range(2 * MAX_LABELS):
        metrics.count_labelled("inbound_requests", number)
    assert len(metrics.labelled["inbound_requests"]) == MAX_LABELS + 1
    assert metrics.labelled["inbound_requests"][OTHERS] == MAX_LABELS


@pytest.mark.requirement("K595-28")
def test_addresses_of_one_peer_are_summed(metrics: Metrics) -> None:
    metrics.count_labelled("outbound_requests", ("host", 1), 2)
    metrics.count_labelled("outbound_requests", ("host", 2), 3)
    metrics.write_labels_by(lambda label: "7")
    assert samples(metrics)["outbound_requests_total", "7"] == 5


@pytest.mark.requirement("K595-28")
def test_commit_time_is_split_into_local_and_remote_parts(metrics: Metrics) -> None:
    replica = metrics.partition(0)
    fsync = replica.histograms["local_fsync_latency_seconds"]
    remote = replica.histograms["replication_latency_seconds"]
    times = CommitTimes(replica)
    times.appended(5, 0.0)
    times.appended(7, 0.0)
    times.durable(5)
    assert (fsync.count, remote.count) == (1, 0)
    times.committed(7)
    assert (fsync.count, remote.count) == (1, 2)
    times.forget()
    times.durable(7)
    assert fsync.count == 1


@pytest.mark.requirement("K595-28")
def test_election_time_is_from_the_first_candidacy_to_a_known_leader(metrics: Metrics) -> None:
    elections = metrics.partition(0).histograms["election_latency_seconds"]
    times = ElectionTimes(metrics.partition(0))
    times.role_changed(RoleChanged(RoleName.FOLLOWER, 1, 2, True))
    assert elections.count == 0, "a leader that was learnt without a candidacy"
    times.role_changed(RoleChanged(RoleName.CANDIDATE, 2, -1, True))
    times.role_changed(RoleChanged(RoleName.UNATTACHED, 2, -1, True))
    times.role_changed(RoleChanged(RoleName.CANDIDATE, 3, -1, True))
    assert elections.count == 0
    times.role_changed(RoleChanged(RoleName.LEADER, 3, 1, True))
    assert elections.count == 1


@pytest.mark.requirement("K595-28")
def test_four_request_times_are_recorded_per_request_type(metrics: Metrics) -> None:
    """Received, taken up, answered, written: two requests of one type, one of another."""
    times = RequestTimes(metrics)
    times.left(FETCH, 10.0, 10.1, 10.4, 11.0)
    times.left(FETCH, 20.0, 20.3, 20.4, 20.5)
    times.left(VOTE, 30.0, 30.0, 30.2, 30.2)
    found = samples(metrics)
    expected = {"request_queue_time": 0.4, "request_handle_time": 0.4, "response_queue_time": 0.7}
    for name, seconds in expected.items():
        assert found[f"{name}_seconds_sum", "Fetch"] == pytest.approx(seconds)
        assert found[f"{name}_avg_seconds", "Fetch"] == pytest.approx(seconds / 2)
    assert found["request_total_time_seconds_sum", "Fetch"] == pytest.approx(1.5)
    assert found["request_total_time_seconds_count", "Fetch"] == 2
    assert found["request_handle_time_seconds_sum", "Vote"] == pytest.approx(0.2)
    assert found["request_queue_time_seconds_sum", "Vote"] == 0
