"""The process's settings for the core: every time of the configuration, and real randomness."""

from dataclasses import replace
from pathlib import Path

import pytest

from quorum_node.configuration.timeouts import QuorumTimeouts
from quorum_node.raft import Replica
from quorum_node.raft.election import campaign_delay_ms
from quorum_node.server.starting.replica_building import build_replica
from support.hosted_node import config_of, opened

TIMEOUTS = QuorumTimeouts(
    election_timeout_ms=1001,
    fetch_timeout_ms=2002,
    election_backoff_max_ms=1003,
    request_timeout_ms=2004,
    retry_backoff_ms=25,
    retry_backoff_max_ms=1006,
)


def built(folder: Path) -> Replica:
    directory = opened(folder)
    replica = build_replica(
        replace(config_of(folder), timeouts=TIMEOUTS), directory.meta, directory.first
    )
    for partition in directory.partitions:
        partition.log.close()
    return replica


@pytest.mark.requirement("K595-01")
def test_every_time_property_reaches_the_core(tmp_path: Path) -> None:
    config = built(tmp_path).config
    for field in TIMEOUTS.__slots__:
        assert getattr(config, field) == getattr(TIMEOUTS, field), field


@pytest.mark.requirement("K595-09")
def test_delays_differ_between_nodes_and_between_attempts(tmp_path: Path) -> None:
    """Random: of a hundred draws each, hardly two are equal."""
    delays = set()
    for name in ("one", "other"):
        state = built(tmp_path / name)
        drawn = {campaign_delay_ms(state, campaigns=10) for _ in range(100)}
        assert len(drawn) > 90
        assert 0 < min(drawn) < max(drawn) <= TIMEOUTS.election_backoff_max_ms
        delays |= drawn
    assert len(delays) > 180
