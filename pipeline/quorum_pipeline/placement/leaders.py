"""Balances preferred leaders by reordering replicas, without moving any. PURE.

Owns the search for chains: a broker that leads too many partitions hands some over to a follower, which hands over as
many others, and so on to a broker that leads too few.
"""

from collections import defaultdict, deque
from itertools import pairwise

from quorum_pipeline.placement.cluster import Placement, targets

Bucket = dict[int, dict[int, list[int]]]
"""Leader → follower → partitions. An entry may be outdated: it is valid only if the partition still has that leader."""


def balance_leaders(placement: Placement) -> None:
    """Reorder replicas until every broker leads an even share, or no chain is left. It is repeated as for replicas (`replicas.py`)."""
    while _balance(placement):
        pass


def _balance(placement: Placement) -> bool:
    """Reorder replicas; return whether any partition got another leader."""
    counts = placement.leader_count
    wanted = targets(counts, placement)
    if all(count <= most for count, most in zip(counts, wanted, strict=True)):
        return False
    went = False
    buckets: Bucket = defaultdict(lambda: defaultdict(list))
    for index, replicas in enumerate(placement.replicas):
        for follower in replicas[1:]:
            buckets[replicas[0]][follower].append(index)
    for broker in sorted(range(len(counts)), key=lambda each: wanted[each] - counts[each]):
        while counts[broker] > wanted[broker]:
            chain = _chain(placement, buckets, wanted, broker)
            if chain is None or not _hand_over(placement, buckets, wanted, chain):
                break
            went = True
    return went


def _chain(
    placement: Placement, buckets: Bucket, wanted: list[int], begin: int
) -> list[int] | None:
    """Return the shortest chain from a broker that leads too many partitions to one that leads too few, or None."""
    came_from = {begin: begin}
    waiting = deque([begin])
    while waiting:
        leader = waiting.popleft()
        for follower in list(buckets[leader]):
            if follower in came_from or not placement.receives[follower]:
                continue
            if not _next(placement, buckets, leader, follower):
                continue
            came_from[follower] = leader
            if placement.leader_count[follower] < wanted[follower]:
                chain = [follower]
                while chain[-1] != begin:
                    chain.append(came_from[chain[-1]])
                return chain[::-1]
            waiting.append(follower)
    return None


def _next(placement: Placement, buckets: Bucket, leader: int, follower: int) -> bool:
    """Drop outdated entries at the end of the bucket; return whether a valid one is left."""
    bucket = buckets[leader][follower]
    while bucket:
        replicas = placement.replicas[bucket[-1]]
        if replicas[0] == leader and follower in replicas:
            return True
        bucket.pop()
    return False


def _hand_over(placement: Placement, buckets: Bucket, wanted: list[int], chain: list[int]) -> bool:
    """Hand over one partition at a time along the whole chain; return whether any was handed over."""
    counts = placement.leader_count
    begin, end = chain[0], chain[-1]
    went = False
    while counts[begin] > wanted[begin] and counts[end] < wanted[end]:
        links = list(pairwise(chain))
        if not all(_next(placement, buckets, leader, follower) for leader, follower in links):
            break
        for leader, follower in links:
            index = buckets[leader][follower].pop()
            placement.lead(index, follower)
            for other in placement.replicas[index][1:]:
                buckets[follower][other].append(index)
        went = True
    return went
