"""What a replica is told at start.

Owns the settings of the core, in milliseconds. Must not know property names (`server/`'s affair).
Source: KIP-595, "Configurations"; defaults are Kafka's.
"""

from dataclasses import dataclass

from quorum_node.records.identity import Endpoint, Voter

CONTROLLER = "CONTROLLER"
"""Name of the listener that replicas speak to each other on."""


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """`endpoints` are this node's own (CONTROLLER and ADMIN).

    `auto_join`: as an observer it asks by itself to become a voter. `founder`: this key may found the quorum when its log holds no voters record; it then needs
    `cluster_id`. `initial_voters`: client writes are refused until that many voters were committed.
    `witness`: this replica replicates and votes, but never campaigns.
    """

    endpoints: tuple[Endpoint, ...]
    bootstrap: tuple[Endpoint, ...] = ()
    cluster_id: str | None = None
    founder: bool = False
    auto_join: bool = False
    initial_voters: int = 1
    boot_timestamp_ms: int = 0
    """Wall clock at the start of this run; tells which address of a voter is newest."""
    static_voters: tuple[Voter, ...] = ()
    """`controller.quorum.voters`: ids (UUIDs unknown) and endpoints; only before a voters record."""
    may_form: bool = True
    """Whether this replica may help its static voters to form a quorum; else it only looks for one."""
    new_cluster_id: str | None = None
    """What the first leader of a static quorum calls the cluster if `cluster_id` is not given."""
    witness: bool = False
    election_timeout_ms: float = 1000
    fetch_timeout_ms: float = 2000
    silence_share: float = 0.5
    """Of the fetch timeout: see `silence_ms`. With 1 nobody asks for pre-votes before the fetch timeout is over."""
    election_backoff_max_ms: float = 1000
    request_timeout_ms: float = 2000
    retry_backoff_ms: float = 20
    retry_backoff_max_ms: float = 1000
    fetch_max_bytes: int = 8 * 1024 * 1024
    high_watermark_linger_ms: float = 20
    """A parked fetch is answered this long after a commit that its sender has not heard of."""
    observer_interval_ms: float = 1.0
    """Observers are told of new records at this rate, all of them together; voters at once."""
    observer_burst: int = 4
    """So many observers are told at once after a pause."""
    catch_up_max_lag: int = 1000
    """An observer further behind than this is not counted as caught up for AddVoter."""

    snapshot_part_bytes: int = 8 * 1024 * 1024
    """Largest part of a snapshot in one answer; less after one that did not come in time."""
    snapshot_download_idle_ms: float = 30_000
    """A download from this leader that asks for nothing for so long no longer keeps its snapshot."""
    snapshot_download_max_ms: float = 3_600_000
    """Nor does one that goes on for so long."""

    @property
    def read_timeout_ms(self) -> float:
        """Longest life of a read on a replica that does not lead: two questions, one after another."""
        return 2 * self.request_timeout_ms

    @property
    def controller_endpoint(self) -> Endpoint | None:
        """This node's controller listener."""
        return next((e for e in self.endpoints if e.name.upper() == CONTROLLER), None)

    @property
    def silence_ms(self) -> float:
        """A voter whose fetch is unanswered for so long asks for pre-votes, and grants them.

        A leader resigns, and anything is done without the consent of a majority, only after the whole fetch timeout.
        """
        return self.fetch_timeout_ms * self.silence_share

    @property
    def fetch_max_wait_ms(self) -> int:
        """How long a leader may keep a voter's fetch: several answers fit into `silence_ms`."""
        return int(min(500, self.silence_ms / 4))

    @property
    def observer_fetch_max_wait_ms(self) -> int:
        """The same for an observer's, whose silence bound is the fetch timeout."""
        return int(min(500, self.fetch_timeout_ms / 4))

    @property
    def link_jitter_ms(self) -> float:
        """Largest wait between a closed link to the leader and the pre-vote that it starts."""
        return self.election_timeout_ms / 20
