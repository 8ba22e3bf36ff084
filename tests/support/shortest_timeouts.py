"""The shortest timeouts that a node accepts, in ms, by the fields of QuorumTimeouts."""

SHORTEST_MS = {
    "fetch_timeout_ms": 600,
    "request_timeout_ms": 600,
    "election_timeout_ms": 50,
    "election_backoff_max_ms": 10,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 1,
}


def as_properties(timeouts_ms: dict[str, int]) -> dict[str, str]:
    """The keys of the quorum."""
    return {
        f"controller.quorum.{field.replace('_', '.')}": str(value)
        for field, value in timeouts_ms.items()
    }
