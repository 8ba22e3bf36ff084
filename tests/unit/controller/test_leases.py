"""Leases of brokers: when they end, and for whom they hold."""

import pytest

from quorum_node.controller.leases import BrokerLeases


@pytest.mark.requirement("K631-08")
def test_lease_expires_one_session_timeout_after_the_last_heartbeat() -> None:
    leases = BrokerLeases(9000)
    leases.renew(1, 50, 1000, -1)
    assert leases.is_valid(1, 50, 9999)
    assert not leases.is_valid(1, 50, 10_000)
    leases.renew(1, 50, 9000, 70)
    assert leases.is_valid(1, 50, 17_999)
    assert leases.expiry_ms(1, 50) == 18_000


@pytest.mark.requirement("K631-08")
def test_lease_is_not_inherited_by_a_new_process() -> None:
    leases = BrokerLeases(9000)
    leases.renew(1, 50, 1000, 49).shutdown_offset = 70
    assert not leases.is_valid(1, 60, 1000)
    lease = leases.renew(1, 60, 2000, -1)
    assert (lease.metadata_offset, lease.shutdown_offset) == (-1, -1)
    assert not leases.is_valid(1, 50, 2000)


def test_broker_without_heartbeats_has_no_lease() -> None:
    leases = BrokerLeases(9000)
    assert not leases.is_valid(1, 50, 0)
    assert leases.expiry_ms(1, 50) == -float("inf")


def test_late_heartbeat_does_not_revert_progress() -> None:
    leases = BrokerLeases(9000)
    leases.renew(1, 50, 0, 80)
    assert leases.renew(1, 50, 1, 70).metadata_offset == 80
