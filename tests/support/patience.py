"""Properties of quorums in tests that are not about elections.

Other work on the machine can hold a node up for longer than the usual fetch timeout of two seconds, and causes an election then.
"""


def fetch_timeout(ms: int) -> dict[str, str]:
    """Followers, and the leader, notice after so many milliseconds that nobody answers."""
    return {"controller.quorum.fetch.timeout.ms": str(ms)}


PATIENT = fetch_timeout(15_000)
"""The leader stays, unless it ends or resigns: an election for want of an answer takes longer than a test waits for one request."""
