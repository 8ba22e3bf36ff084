"""The leader's state of one follower. PURE.

Owns when a follower counts as caught up. Must not know the ISR.
Source: the replication design V3, "ISR expansion and shrinkage"; KIP-903 (broker epochs in a fetch).
"""

from quorum_node.broker.events import FollowerFetched

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
"""The version of the fetch has no broker epoch (before Fetch 15)."""
NEVER_MS = float("-inf")
BYTES_LAG_PATIENCE_MS = 500.0
BYTES_LAG_PATIENCE_FETCHES = 2


class FollowerProgress:
    """`end_offset`: the follower has written everything before; UNKNOWN_OFFSET until its first fetch.

    `log_start_offset`: start of its log, likewise.
    """

    __slots__ = (
        "_far_behind_fetches",
        "_far_behind_since_ms",
        "_leader_end_offset",
        "_newest_fetch_ms",
        "behind_bytes",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: float) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = caught_up_ms
        self.behind_bytes = 0
        self._newest_fetch_ms = NEVER_MS
        self._leader_end_offset = 0
        self._far_behind_since_ms: float | None = None
        self._far_behind_fetches = 0

    def fetched(
        self,
        event: FollowerFetched,
        leader_end_offset: int,
        lag_max_bytes: int | None,
        now_ms: float,
    ) -> None:
        """Process a fetch. The follower is caught up with the leader's log end at this fetch, or at the one before."""
        if event.fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif event.fetch_offset >= self._leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self._newest_fetch_ms)
        self._newest_fetch_ms = now_ms
        self._leader_end_offset = leader_end_offset
        self.end_offset = event.fetch_offset
        self.log_start_offset = event.log_start_offset
        self.broker_epoch = event.broker_epoch
        self.behind_bytes = event.behind_bytes
        if lag_max_bytes is None or event.behind_bytes <= lag_max_bytes:
            self._far_behind_since_ms, self._far_behind_fetches = None, 0
            return
        self._far_behind_fetches += 1
        if self._far_behind_since_ms is None:
            self._far_behind_since_ms = now_ms

    def lags_in_time(self, leader_end_offset: int, lag_time_max_ms: float, now_ms: float) -> bool:
        """Whether it has been behind for too long, because it fetches slowly or not at all."""
        return self.end_offset != leader_end_offset and now_ms - self.caught_up_ms > lag_time_max_ms

    def lags_in_bytes(self, now_ms: float) -> bool:
        """Whether it stays too many bytes behind. A burst alone does not count: the follower gets some fetches to catch up."""
        return self._far_behind_since_ms is not None and (
            self._far_behind_fetches > BYTES_LAG_PATIENCE_FETCHES
            or now_ms - self._far_behind_since_ms >= BYTES_LAG_PATIENCE_MS
        )
