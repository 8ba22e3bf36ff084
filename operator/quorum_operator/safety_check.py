"""The safety check before a step that stops, removes or deletes something. It reads a confirmed description of the
quorum and the pods again.

The observation of the plan may be some moments old or cached. Pods are read one by one by name, independent of
labels, watches and caches.
"""

import asyncio
from dataclasses import replace

from quorum_operator.desired.names import Owner
from quorum_operator.kube import facts, paths
from quorum_operator.kube.client import KubeApi
from quorum_operator.planner.harm import harm, may_harm
from quorum_operator.planner.observed import Incarnation, Observation, PodFacts
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import Step
from quorum_operator.query_order import pods_to_query
from quorum_operator.quorum_client import QuorumClient, Seen, describe_newest


async def safety_check(
    api: KubeApi, nodes: QuorumClient, owner: Owner, seen: Observation, step: Step
) -> str | None:
    """Why `step`, planned on `seen`, must not be executed now; None if it may be. Raises ApiError."""
    if not may_harm(step):
        return None
    pods = await asyncio.gather(*(_pod(api, owner, each) for each in seen.incarnations))
    incarnations = tuple(
        replace(each, pod=pod) for each, pod in zip(seen.incarnations, pods, strict=True)
    )
    leader = seen.view.leader if seen.view is not None else None
    described = await describe_newest(nodes, pods_to_query(incarnations, leader), _newest(seen))
    return harm(Situation(replace(seen, incarnations=incarnations, view=described.view)), step)


async def _pod(api: KubeApi, owner: Owner, each: Incarnation) -> PodFacts | None:
    found = await api.get(paths.namespaced("pods", owner.namespace, f"{each.name}-0"))
    return None if found is None else facts.pod_facts(found, None)


def _newest(seen: Observation) -> Seen:
    view = seen.view
    return Seen() if view is None else Seen(view.cluster_id, view.epoch, view.recovered_epoch)
