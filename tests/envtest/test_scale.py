"""Many quorums on one operator: when idle it makes few calls and no list, and a repair makes few calls.

By counts: how long repairs take on a machine that runs an API server as well is measured by `make bench-operator`, and
that they do not wait for each other within the operator is shown in virtual time (`test_concurrent_repairs.py`).
"""

import time

import pytest

from support.envtest.environment import Env
from support.envtest.scale import Fleet
from support.envtest.simulated_nodes import SimulatedNodes

pytestmark = pytest.mark.envtest

API_CALLS_PER_S = 20.0
NODE_CALLS_PER_S = 25.0
QUORUMS = 100
"""All of which may make so many calls; a few may make their share, and what one operator needs for itself."""
OWN_CALLS_PER_S = 1.0
RSS_MIB = 256.0
RSS_OF_FIVE_MIB = 160.0
"""Most of it is the process itself."""
CALLS_OF_REPAIR = 130
"""To the API server, beside those of all quorums at rest; with those of a busy machine's further looks."""


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.requirement("OP-03")
def test_five_idle_quorums_stay_within_their_call_budget_and_cause_no_list(
    env: Env, simulated_nodes: SimulatedNodes
) -> None:
    fleet = Fleet(env, simulated_nodes, 5)
    fleet.create(timeout_s=120)
    found = fleet.rest(20)
    share = len(fleet.names) / QUORUMS
    assert [verb for verb in found.api if verb.startswith("LIST")] == [], found.api
    assert found.api_per_s <= API_CALLS_PER_S * share + OWN_CALLS_PER_S, found.api
    assert found.nodes_per_s <= NODE_CALLS_PER_S * share * 1.2, found.nodes
    assert found.nodes.total() > 0
    assert found.rss_mib <= RSS_OF_FIVE_MIB
    assert fleet.idle_interval()
    calls = fleet.calls_of_repair("q3", timeout_s=60)
    assert calls.beside(found) <= CALLS_OF_REPAIR, calls.api


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.requirement("OP-03")
def test_hundred_idle_quorums_and_twenty_concurrent_disk_failures_are_handled(
    env: Env, simulated_nodes: SimulatedNodes
) -> None:
    fleet = Fleet(env, simulated_nodes, QUORUMS)
    fleet.create(timeout_s=900)
    found = fleet.rest(60)
    assert [verb for verb in found.api if verb.startswith("LIST")] == [], found.api
    assert found.api_per_s <= API_CALLS_PER_S, found.api
    assert found.nodes_per_s <= NODE_CALLS_PER_S, found.nodes
    assert found.rss_mib <= RSS_MIB
    calls = fleet.calls_of_repair(fleet.names[0], timeout_s=300)
    assert calls.beside(found) <= CALLS_OF_REPAIR, calls.api
    fleet.pass_proxy_by(timeout_s=600)
    before, began = fleet.told(), time.monotonic()
    fleet.repair(fleet.names[10:30], timeout_s=900)
    made = fleet.told().since(before, "api_calls_total")
    idle_interval = found.api_per_s * (time.monotonic() - began)
    assert (made - idle_interval) / 20 <= CALLS_OF_REPAIR, made
    assert fleet.rss_mib() <= RSS_MIB
