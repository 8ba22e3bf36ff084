"""Throttles of replication: the lists of replicas, and the quota."""

import pytest

from quorum_node.broker.replication_quota import ReplicationQuota, is_listed

pytestmark = pytest.mark.requirement("KV3-04")


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("", False),
        ("*", True),
        ("3:101", True),
        (" 1:102 , 3:101 ", True),
        ("3:1011", False),
        ("3:102,1:101", False),
        ("none", False),
    ],
)
def test_replica_is_throttled_if_its_topic_lists_it(text: str, listed: bool) -> None:
    assert is_listed(text, 3, 101) is listed


def test_what_exceeds_the_limit_is_paid_off_before_more_is_permitted() -> None:
    quota = ReplicationQuota(1_000.0)
    quota.record(1_000, 0.0)
    assert not quota.is_exceeded(0.0), "one second at the limit is a burst"
    quota.record(50_000, 0.0)
    assert quota.is_exceeded(49_999.0)
    assert not quota.is_exceeded(50_000.0)


@pytest.mark.parametrize("piece_bytes", [100, 100_000, 5_000_000])
def test_long_transfer_takes_as_long_as_its_throttle_says(piece_bytes: int) -> None:
    quota, now_ms, sent_bytes = ReplicationQuota(50_000.0), 0.0, 0
    while sent_bytes < 10_000_000 or quota.is_exceeded(now_ms):
        if quota.is_exceeded(now_ms):
            now_ms += 100.0
        else:
            quota.record(piece_bytes, now_ms)
            sent_bytes += piece_bytes
    assert 198_000 <= now_ms <= 202_000


def test_without_a_limit_nothing_waits_and_a_limit_applies_from_then_on() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 40, 0.0)
    assert not quota.is_exceeded(0.0)
    quota.limit(1_000.0)
    assert not quota.is_exceeded(0.0)
    quota.record(1 << 40, 0.0)
    assert quota.is_exceeded(0.0)
    quota.limit(None)
    assert not quota.is_exceeded(0.0)
