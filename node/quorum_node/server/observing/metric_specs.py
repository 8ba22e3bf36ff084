"""Every metric of the node, declared once: `docs/reference/metrics.md` is generated from `SPECS`.

Owns names, kinds, labels and meanings. Must not know how the values are measured.
Source: KIP-595, "Metrics" (the draft's own names are kept in `draft`) and "Quorum Performance" (latency split into local and remote).
Units are Prometheus' base units: seconds where the draft says Ms.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "summary"]

WINDOW_SECONDS = 30
"""The length of the windows, which the draft does not define: 30 seconds, the default of Kafka's own metrics."""


class Derived(Enum):
    """How a windowed gauge is calculated from the events of its source metric in the window."""

    RATE = "counted per second"
    AVERAGE = "average"
    MAX = "largest"
    OCCUPANCY = "seconds spent per second: the average number at a time"
    IDLE = "1 minus the seconds spent per second"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric. `partition`: it exists once for each quorum partition, with the label `partition` first.

    `label` is its own label, if it has one. A windowed gauge is `derived` from the metric `source`. `draft`: its name in KIP-595's table.
    """

    name: str
    kind: Kind
    help: str
    label: str | None = None
    partition: bool = False
    draft: str = ""
    derived: Derived | None = None
    source: str = ""


PREFIX = "metadata_quorum_"
PARTITION_LABEL = "partition"


def _gauge(
    name: str, help: str, label: str | None = None, *, partition: bool = True, draft: str = ""
) -> MetricSpec:
    return MetricSpec(PREFIX + name, "gauge", help, label, partition, draft)


def _counter(
    name: str, help: str, label: str | None = None, *, partition: bool = False
) -> MetricSpec:
    return MetricSpec(PREFIX + name, "counter", help, label, partition)


def _histogram(name: str, help: str) -> MetricSpec:
    return MetricSpec(PREFIX + name, "histogram", help, None, True)


def _summary(name: str, help: str, label: str) -> MetricSpec:
    return MetricSpec(PREFIX + name, "summary", help, label)


def _windowed(
    name: str,
    help: str,
    how: Derived,
    source: str,
    label: str | None = None,
    *,
    partition: bool = False,
    draft: str,
) -> MetricSpec:
    return MetricSpec(PREFIX + name, "gauge", help, label, partition, draft, how, source)


STATE = (
    _gauge("leader_id", "Node id of the known leader, -1 when unknown", draft="CurrentLeader"),
    _gauge("leader_epoch", "Current leader epoch, 0 when unknown", draft="CurrentEpoch"),
    _gauge("voted_id", "Node id voted for in this epoch, -1 for none", draft="CurrentVote"),
    _gauge("log_end_offset", "End offset of the local log", draft="LogEndOffset"),
    _gauge("log_end_epoch", "Epoch of the last record of the local log", draft="LogEndEpoch"),
    _gauge(
        "start_time_seconds",
        "Wall-clock time at which the process started",
        partition=False,
        draft="BootTimestamp",
    ),
    _gauge("role", "1 for the role the replica is in, 0 for the others", "role", draft="State"),
    _gauge("voters", "Number of voters in the latest voter set", draft="NumQuorumVoters"),
    _gauge(
        "voter_connections",
        "Number of other voters in the latest voter set that this node is connected to",
        draft="NumQuorumVoters",
    ),
    _gauge("is_voter", "1 when this replica is in the latest voter set"),
    _gauge("high_watermark", "Offset up to which records are committed"),
    _gauge("durable_end_offset", "End offset of the records that are fsynced locally"),
    _gauge("applied_offset", "Offset up to which records are applied"),
    _gauge(
        "state_age_seconds",
        "Maximum age of a local read: everything that the known leader"
        " had committed this long ago is committed here",
    ),
    _gauge(
        "log_start_offset", "First offset of the local log; earlier records are in the snapshot"
    ),
    _gauge("latest_snapshot_end_offset", "End offset of the newest snapshot, 0 for none"),
    _gauge("latest_snapshot_epoch", "Epoch of the newest snapshot, 0 for none"),
    _gauge("latest_snapshot_size_bytes", "Size of the newest snapshot"),
    _gauge("latest_snapshot_age_seconds", "Age of the last record in the newest snapshot"),
    _gauge("snapshots", "Snapshots on this replica's disk"),
    _gauge(
        "metadata_lag",
        "Committed records that are not applied here yet",
        draft="MetadataLag (KIP-631)",
    ),
    _gauge(
        "broker_metadata_lag",
        "On the active controller: committed records that a broker has not applied yet, as reported by its"
        " heartbeats (MetadataLag of a broker, KIP-631)",
        "broker",
    ),
    _gauge(
        "metadata_snapshot_lag",
        "Committed records after the newest snapshot, 0 without one",
        draft="MetadataSnapshotLag (KIP-631)",
    ),
    _gauge("active_controller", "1 on the active controller, 0 on others"),
    _gauge("active_brokers", "Unfenced brokers, in the applied image"),
    _gauge("fenced_brokers", "Fenced brokers, in the applied image"),
    _gauge("leaderless_partitions", "Partitions of topics without a leader, in the applied image"),
    _gauge("formed", "1 once all initial voters have joined"),
    _gauge("disk_free_bytes", "Free bytes on the log's filesystem", partition=False),
    _gauge("disk_low", "1 while appends are refused below the reserve", partition=False),
    _gauge("connections", "Open connections on the Kafka listener", partition=False),
    _gauge("requests_in_flight", "Requests received and not answered yet", partition=False),
    _gauge(
        "unfinished_request_bytes",
        "Received bytes of incomplete requests on the Kafka listener",
        partition=False,
    ),
    _gauge(
        "certificate_not_after_seconds",
        "When the certificate of a listener expires, in seconds since 1970; absent in clear text",
        "listener",
        partition=False,
    ),
    _gauge(
        "authority_not_after_seconds",
        "When the first of the authorities that a listener trusts expires, in seconds since 1970; absent in clear text",
        "listener",
        partition=False,
    ),
    _gauge(
        "certificate_problem",
        "1 while a listener uses the previous certificate because the present files can't be used, or uses one that has expired or is revoked",
        "listener",
        partition=False,
    ),
    _gauge(
        "revoked_certificates",
        "Revoked certificates that a listener refuses although they have not expired; absent in clear text",
        "listener",
        partition=False,
    ),
)

LATENCIES = (
    _histogram(
        "election_latency_seconds",
        "On each voter: from becoming a candidate until a leader is known, which may be itself",
    ),
    _windowed(
        "election_latency_avg_seconds", "Average of the elections in the window", Derived.AVERAGE,
        "election_latency_seconds", partition=True, draft="ElectionLatencyAvg",
    ),
    _windowed(
        "election_latency_max_seconds", "Longest election in the window", Derived.MAX,
        "election_latency_seconds", partition=True, draft="ElectionLatencyMax",
    ),
    _histogram(
        "replication_latency_seconds",
        "Remote part of a commit, on the leader: from the append of a batch until the high watermark"
        " has passed it. Runs in parallel with the local fsync",
    ),
    _windowed(
        "replication_latency_avg_seconds", "Average over the batches in the window",
        Derived.AVERAGE, "replication_latency_seconds", partition=True, draft="ReplicationLatencyAvg",
    ),
    _windowed(
        "replication_latency_max_seconds", "Slowest batch in the window", Derived.MAX,
        "replication_latency_seconds", partition=True, draft="ReplicationLatencyMax",
    ),
    _histogram(
        "local_fsync_latency_seconds",
        "Local part of a commit, on the leader: from the append of a batch until it is durable here",
    ),
    _histogram(
        "apply_latency_seconds",
        "Local part of a commit: time to replay what was committed (up to 256 KiB at a time)",
    ),
    _histogram(
        "commit_latency_seconds",
        "On the leader: from the acceptance of the oldest append of a batch until it is committed",
    ),
    _windowed(
        "commit_latency_avg_seconds", "Average over the batches in the window", Derived.AVERAGE,
        "commit_latency_seconds", partition=True, draft="MetadataCommitLatencyMs (KIP-631)",
    ),
    _histogram("snapshot_write_seconds", "Time to write a local snapshot, in the background"),
    _histogram("snapshot_load_seconds", "Time to load a snapshot into the image"),
    _histogram("flush_latency_seconds", "Time of one fsync of the log"),
    _histogram(
        "read_round_seconds",
        "Time of one confirmation of linearizable reads; on a replica that does not lead, until it"
        " has the leader's offset and has reached it",
    ),
)  # fmt: skip

RATES = (
    _counter("inbound_requests", "Requests received, by the sender's node id, -1 for clients",
             "source"),
    _windowed("inbound_requests_per_second", "The same, per second", Derived.RATE,
              "inbound_requests", "source", draft="InboundRequestPerSec"),
    _counter("outbound_requests", "Requests sent to other replicas, by node id (or by address while"
             " the id is unknown)", "destination"),
    _windowed("outbound_requests_per_second", "The same, per second", Derived.RATE,
              "outbound_requests", "destination", draft="OutboundRequestPerSec"),
    _counter("error_responses", "Requests to other replicas that were answered with an error, or not at all",
             "destination"),
    _windowed("error_responses_per_second", "The same, per second", Derived.RATE,
              "error_responses", "destination", draft="ErrorResponsePerSec"),
    _counter("records_fetched", "Records that a follower or observer appended from fetches",
             partition=True),
    _windowed("records_fetched_per_second", "The same, per second; 0 on the leader", Derived.RATE,
              "records_fetched", partition=True, draft="FetchRecordsPerSec"),
    _counter("records_appended", "Records that clients appended to this leader", partition=True),
    _windowed("records_appended_per_second", "The same, per second; 0 on others", Derived.RATE,
              "records_appended", partition=True, draft="AppendRecordsPerSec"),
    _counter("records_committed", "Records of clients and of the controller that this leader committed",
             partition=True),
    _windowed("records_committed_per_second", "The same, per second; 0 on others", Derived.RATE,
              "records_committed", partition=True, draft="MetadataCommitRate (KIP-631)"),
    _counter("controller_requests", "Requests to the controller, refused ones included", partition=True),
    _windowed("controller_requests_per_second", "The same, per second", Derived.RATE,
              "controller_requests", partition=True, draft="ControllerRequestsRate (KIP-631)"),
)  # fmt: skip

REQUESTS = (
    _summary("request_total_time_seconds", "From the arrival of a request until its answer is sent",
             "api"),
    _windowed("request_total_time_avg_seconds", "The same, average", Derived.AVERAGE,
              "request_total_time_seconds", "api", draft="TotalTimeMs"),
    _summary("request_queue_time_seconds", "From the arrival of a request until it is handled", "api"),
    _windowed("request_queue_time_avg_seconds", "The same, average", Derived.AVERAGE,
              "request_queue_time_seconds", "api", draft="InboundQueueTimeMs"),
    _summary("request_handle_time_seconds", "From the start of handling until the answer is ready: a parked fetch"
             " waits here for data, a write for its commit", "api"),
    _windowed("request_handle_time_avg_seconds", "The same, average", Derived.AVERAGE,
              "request_handle_time_seconds", "api", draft="HandleTimeMs"),
    _summary("response_queue_time_seconds", "From the ready answer until it is sent on the"
             " connection", "api"),
    _windowed("response_queue_time_avg_seconds", "The same, average", Derived.AVERAGE,
              "response_queue_time_seconds", "api", draft="OutboundQueueTimeMs"),
    _windowed("inbound_channel_size", "Requests that wait for their turn to be handled, average",
              Derived.OCCUPANCY, "request_queue_time_seconds", draft="InboundChannelSize"),
    _summary("peer_request_time_seconds", "From the sending of a request to another replica until its"
             " outcome", "api"),
    _windowed("outbound_channel_size", "Requests to other replicas without an outcome yet, average",
              Derived.OCCUPANCY, "peer_request_time_seconds", draft="OutboundChannelSize"),
    _counter("loop_busy_seconds", "CPU time of the event loop's thread, which does everything but fsync"),
    _windowed("idle_ratio", "Share of the time in which that thread needed no CPU, 0 to 1",
              Derived.IDLE, "loop_busy_seconds", draft="AvgIdlePercent"),
)  # fmt: skip

COUNTS = (
    _counter("requests", "Requests received on the Kafka listener", "api"),
    _counter(
        "malformed_requests",
        "Connections closed because of invalid bytes, by listener",
        "listener",
    ),
    _counter(
        "connections_closed",
        "Connections closed because of a limit, by listener and configuration key of the limit; or for the reasons `handshake` and `certificate` (refused by TLS) and `login` (SASL login failed)",
        "limit",
    ),
    _counter(
        "dialled_refusals",
        "Connections to other members that failed in TLS: `certificate`: the peer is not the expected one; `handshake`; `closed`: the peer closed it, as one that refuses this node does",
        "reason",
    ),
    _counter(
        "authorization_denials",
        "Requests refused because the caller lacks a right, by role of the caller and API or route",
        "denied",
    ),
    _counter("peer_requests", "Requests sent to other replicas", "api"),
    _counter(
        "peer_request_parts",
        "Partitions in these requests: more than requests where those of"
        " several partitions were sent as one",
        "api",
    ),
    _counter("peer_failures", "Requests to other replicas that failed", "reason"),
    _counter("elections_won", "Times this replica became leader", partition=True),
    _counter("proposals", "Client appends, by outcome", "outcome", partition=True),
    _counter(
        "reads",
        "Reads, by outcome: confirmed (linearizable), local, or why it was refused",
        "outcome",
        partition=True,
    ),
    _counter(
        "read_rounds",
        "Confirmations requested for linearizable reads; reads that wait together share one",
        partition=True,
    ),
    _counter("fetched_bytes", "Bytes of records received from leaders", partition=True),
    _counter(
        "snapshots_written", "Snapshots that this replica wrote of its own state", partition=True
    ),
    _counter(
        "snapshots_installed", "Snapshots downloaded from leaders and installed", partition=True
    ),
    _counter("snapshots_damaged", "Snapshots found damaged and set aside", partition=True),
    _counter("snapshot_failures", "Snapshots that were begun and failed", "reason", partition=True),
    _counter(
        "superseded_quorum",
        "Messages between this quorum and an older or newer one, separated by a recovery: `refused`: from voters before"
        " the recovery; `own`: this node is one of those voters",
        "quorum",
        partition=True,
    ),
    _counter(
        "scrubbed_bytes",
        "Bytes that were read again from the disk and verified",
        partition=True,
    ),
    _counter(
        "scrub_rounds",
        "Times that everything on the disk was read again and found undamaged",
        partition=True,
    ),
    _counter(
        "corrupt_fetches",
        "Answers of the leader that this replica could not append because their bytes were damaged",
        partition=True,
    ),
    _counter(
        "corruption_reports",
        "Fetches that report to this leader that its previous answer was damaged",
        partition=True,
    ),
    _counter(
        "replicas_went_back",
        "Times that a replica fetched from an offset below what it had acknowledged to this leader: its disk lost records",
        partition=True,
    ),
    _counter("flushes", "fsyncs of the log", partition=True),
    _counter(
        "unclean_elections",
        "Partitions whose leader was elected from outside of the ISR: acknowledged messages may be lost",
        partition=True,
    ),
)

SPECS = (*STATE, *LATENCIES, *RATES, *REQUESTS, *COUNTS)
BY_NAME = {spec.name.removeprefix(PREFIX): spec for spec in SPECS}


def markdown() -> str:
    """The text of docs/reference/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Every node serves these as Prometheus text on `GET /metrics` of the admin listener, and of the health listener",
        "if there is one. Pods of the operator serve them at port 8080. Metrics of the operator are in",
        "[monitoring](../how-to/monitoring.md#metrics-of-the-operator). Terms are in the [glossary](glossary.md).",
        "",
        "Generated from `node/quorum_node/server/observing/metric_specs.py` by `make metrics-doc`; a test compares both.",
        "",
        "- The last column has the name of the metric in the table of KIP-595, or in the KIP that it names.",
        f"- A windowed metric covers the last {WINDOW_SECONDS} seconds. The counter, histogram or summary that it is calculated",
        "  from is in the table too: use that one for calculations in Prometheus.",
        "- Times are in seconds.",
        "- Metrics of a replica have the label `partition`: the number of the quorum partition, 0 unless configured otherwise.",
        "",
        "A commit's latency is `commit_latency_seconds`. Its local part is `local_fsync_latency_seconds` and",
        "`apply_latency_seconds`, its remote part is `replication_latency_seconds`. The fsync and the",
        "replication run in parallel, so the sum of the parts is more than the whole.",
    ]
    for title, specs in (
        ("State", STATE),
        ("Latencies", LATENCIES),
        ("Rates by peer and by record", RATES),
        ("Requests", REQUESTS),
        ("Counts", COUNTS),
    ):
        lines += ["", f"## {title}", "", "| name | kind | labels | meaning | name in the KIP |"]
        lines.append("|---|---|---|---|---|")
        lines += [_row(spec) for spec in specs]
    return "\n".join(lines) + "\n"


def _row(spec: MetricSpec) -> str:
    name = spec.name + ("_total" if spec.kind == "counter" else "")
    labels = ", ".join(label for label in (PARTITION_LABEL * spec.partition, spec.label) if label)
    kind = "gauge, windowed" if spec.derived else spec.kind
    return f"| `{name}` | {kind} | {labels} | {spec.help} | {spec.draft} |"


if __name__ == "__main__":
    print(markdown(), end="")
