"""A plan for a very large cluster, within its time and memory."""

import random
import resource
import time

import pytest

from quorum_pipeline.placement.cluster import Broker, Partition
from quorum_pipeline.placement.plan import make_plan

BROKERS, NEW, RACKS, PARTITIONS = 490, 10, 12, 1_000_000
CPU_SECONDS = 180
MEMORY_KIB = 4 << 20


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.requirement("SP-06")
def test_placement_of_a_million_partitions_on_five_hundred_brokers() -> None:
    """One broker is drained, ten are new, and what is there was placed by chance."""
    rng = random.Random(7)
    brokers = [Broker(n, f"rack-{n % RACKS}", usable=n != 17) for n in range(BROKERS + NEW)]
    by_rack = [[b.id for b in brokers[:BROKERS] if b.rack == f"rack-{r}"] for r in range(RACKS)]
    racks = range(RACKS)
    partitions = [
        Partition(f"t{n >> 6}", n & 63, tuple(rng.choice(by_rack[r]) for r in rng.sample(racks, 3)))
        for n in range(PARTITIONS)
    ]
    began = time.process_time()
    plan = make_plan(brokers, partitions)
    seconds = time.process_time() - began
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{seconds:.1f} s of CPU, {peak_kib >> 10} MiB, {plan.moved_replicas:,} moves")
    assert plan.after.misplaced == plan.after.crowded == 0
    assert plan.after.replicas.most - plan.after.replicas.least <= 1
    assert plan.after.leaders.most - plan.after.leaders.least <= 1
    assert plan.moved_replicas <= plan.fewest * 1.01
    assert seconds < CPU_SECONDS
    assert peak_kib < MEMORY_KIB
