"""Many quorums on one operator: at rest it asks little, it lists nothing, and many repairs take no longer than one."""

import pytest

from support.harness.crowd import Crowd
from support.harness.scale import Fleet, p95
from support.harness.scene import Scene

pytestmark = pytest.mark.harness

API_CALLS_PER_S = 20.0
NODE_CALLS_PER_S = 25.0
QUORUMS = 100
"""All of which may make so many calls; a few may make their share, and what one operator needs for itself."""
OWN_CALLS_PER_S = 1.0
RSS_MIB = 256.0


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.requirement("OP-03")
def test_five_quorums_at_rest_cost_their_share_and_no_list(scene: Scene, crowd: Crowd) -> None:
    fleet = Fleet(scene, crowd, 5)
    fleet.create(timeout_s=120)
    found = fleet.rest(20)
    share = len(fleet.names) / QUORUMS
    assert [verb for verb in found.api if verb.startswith("LIST")] == [], found.api
    assert found.api_per_s <= API_CALLS_PER_S * share + OWN_CALLS_PER_S, found.api
    assert found.nodes_per_s <= NODE_CALLS_PER_S * share * 1.2, found.nodes
    assert found.nodes.total() > 0
    assert found.rss_mib <= RSS_MIB
    assert fleet.at_rest()
    assert fleet.repair(["q3"], timeout_s=60)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.requirement("OP-03")
def test_a_hundred_quorums_at_rest_and_twenty_dead_disks_at_once(
    scene: Scene, crowd: Crowd
) -> None:
    fleet = Fleet(scene, crowd, QUORUMS)
    fleet.create(timeout_s=900)
    found = fleet.rest(60)
    assert [verb for verb in found.api if verb.startswith("LIST")] == [], found.api
    assert found.api_per_s <= API_CALLS_PER_S, found.api
    assert found.nodes_per_s <= NODE_CALLS_PER_S, found.nodes
    assert found.rss_mib <= RSS_MIB
    alone = [fleet.repair([name], timeout_s=120)[0] for name in fleet.names[:5]]
    together = fleet.repair(fleet.names[10:30], timeout_s=300)
    assert p95(together) <= 2 * p95(sorted(alone)), (alone, together)
    assert fleet.rss_mib() <= RSS_MIB
