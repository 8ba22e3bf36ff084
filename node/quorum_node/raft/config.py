"""Settings of the core.

Owns the settings, in milliseconds. Must not know property names (see `configuration/`).
Source: KIP-595, "Configurations"; defaults are Kafka's.
"""

from dataclasses import dataclass

from quorum_node.records.identity import Endpoint, Voter

CONTROLLER = "CONTROLLER"
"""Name of the listener on which replicas reach each other."""


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """`endpoints`: this node's own (CONTROLLER and ADMIN).

    `auto_join`: as an observer it requests to become a voter.
    `founder`: this key may found the quorum if its log has no voters record; then `cluster_id` is
    required.
    `initial_voters`: client writes are refused until that many voters were committed.
    `witness`: this replica replicates and votes, but never starts an election.
    """

    endpoints: tuple[Endpoint, ...]
    bootstrap: tuple[Endpoint, ...] = ()
    cluster_id: str | None = None
    founder: bool = False
    auto_join: bool = False
    initial_voters: int = 1
    boot_timestamp_ms: int = 0
    """Wall clock at the start of this run.

    Of two addresses of a voter the one with the later boot is valid.
    """
    static_voters: tuple[Voter, ...] = ()
    """`controller.quorum.voters`: ids (UUIDs unknown) and endpoints; only before a voters record."""
    may_form: bool = True
    """Whether this replica may help its static voters to form a quorum.

    Otherwise it only looks for an existing one.
    """
    new_cluster_id: str | None = None
    """Cluster id that the first leader of a static quorum assigns if `cluster_id` is not given."""
    witness: bool = False
    election_timeout_ms: float = 1000
    fetch_timeout_ms: float = 2000
    silence_share: float = 0.5
    """Share of the fetch timeout: see `silence_ms`.

    With 1 there are no pre-votes before the fetch timeout has passed.
    """
    election_backoff_max_ms: float = 1000
    request_timeout_ms: float = 2000
    retry_backoff_ms: float = 20
    retry_backoff_max_ms: float = 1000
    fetch_max_bytes: int = 8 * 1024 * 1024
    high_watermark_linger_ms: float = 20
    """Delay after a commit until a parked fetch is answered whose sender lacks that commit."""
    observer_interval_ms: float = 1.0
    """Observers get new records at this rate, all of them together; voters get them at once."""
    observer_burst: int = 4
    """Number of observers that are answered at once after a pause."""
    catch_up_max_lag: int = 1000
    """An observer that is further behind does not count as caught up for AddVoter."""

    snapshot_part_bytes: int = 8 * 1024 * 1024
    """Largest part of a snapshot in one response; it is reduced after a part that timed out."""
    snapshot_download_idle_ms: float = 30_000
    """A download without requests for so long no longer protects its snapshot from deletion."""
    snapshot_download_max_ms: float = 3_600_000
    """Nor does a download that takes longer than this in total."""

    @property
    def read_timeout_ms(self) -> float:
        """Time limit of a read on a replica that is not the leader: two requests, one after the other."""
        return 2 * self.request_timeout_ms

    @property
    def controller_endpoint(self) -> Endpoint | None:
        """This node's controller listener."""
        return next((e for e in self.endpoints if e.name.upper() == CONTROLLER), None)

    @property
    def silence_ms(self) -> float:
        """A voter whose fetch is unanswered for so long starts a pre-vote, and grants pre-votes.

        A leader resigns, and steps without the consent of a majority are taken, only after the full
        fetch timeout.
        """
        return self.fetch_timeout_ms * self.silence_share

    @property
    def fetch_max_wait_ms(self) -> int:
        """How long a leader may park a voter's fetch: several responses fit into `silence_ms`."""
        return int(min(500, self.silence_ms / 4))

    @property
    def observer_fetch_max_wait_ms(self) -> int:
        """The same for an observer's fetch, which has the full fetch timeout."""
        return int(min(500, self.fetch_timeout_ms / 4))

    @property
    def link_jitter_ms(self) -> float:
        """Largest random delay between the loss of the connection to the leader and the pre-vote."""
        return self.election_timeout_ms / 20
