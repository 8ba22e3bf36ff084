"""Before an uninstall: stops the operator, then takes its finalizer off every MetadataQuorum.

Otherwise a quorum that is deleted later would wait for an operator that is gone. Pods, claims and
services are left alone: the quorums go on serving, and deleting one later removes what it owns. The
chart runs it as a hook: `python -m quorum_operator.release`. Knows nothing of planning.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quorum_operator.crd import PLURAL
from quorum_operator.desired.names import FINALIZER
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi, load_configuration
from quorum_operator.kube.errors import ApiError, Conflict, NotFound

Object = dict[str, Any]

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Installation:
    """The operator's Deployment, the label selector of its pods, and where its quorums are."""

    namespace: str
    deployment: str
    selector: str
    watched: tuple[str, ...]
    """Namespaces; none: the whole cluster."""


class NotInTime(Exception):
    """The operator's pods were still there at the deadline."""


async def release(api: KubeApi, installed: Installation, timeout_s: float) -> list[str]:
    """Does all of it; returns namespace/name of each quorum that was let go. Raises NotInTime."""
    await _stop_operator(api, installed, time.monotonic() + timeout_s)
    let_go = []
    for space in installed.watched or (None,):
        for quorum in await _quorums(api, space):
            if await _take_off(api, quorum):
                let_go.append(_name(quorum))
    return let_go


async def _stop_operator(api: KubeApi, installed: Installation, deadline_s: float) -> None:
    """While an operator is alive it would put its finalizer back."""
    path = f"/apis/apps/v1/namespaces/{installed.namespace}/deployments/{installed.deployment}"
    try:
        await api.merge(f"{path}/scale", {"spec": {"replicas": 0}})
    except NotFound:
        pass  # no Deployment: nothing starts pods
    pods = paths.namespaced("pods", installed.namespace)
    while left := await api.find(pods, labels=installed.selector):
        if time.monotonic() >= deadline_s:
            names = ", ".join(each["metadata"]["name"] for each in left)
            raise NotInTime(f"the operator still runs: {names}")
        await asyncio.sleep(_POLL_S)


async def _quorums(api: KubeApi, space: str | None) -> list[Object]:
    try:
        return await api.find(paths.all_quorums(space))
    except NotFound:
        return []  # the resource definition is gone, and all quorums with it


async def _take_off(api: KubeApi, quorum: Object) -> bool:
    """Whether the finalizer was there. Repeats while others write to the object."""
    found: Object | None = quorum
    meta = quorum["metadata"]
    path = paths.namespaced(PLURAL, meta["namespace"], meta["name"])
    while found is not None:
        meta = found["metadata"]
        finalizers = meta.get("finalizers", [])
        if FINALIZER not in finalizers:
            return False
        kept = [each for each in finalizers if each != FINALIZER]
        change = {"resourceVersion": meta["resourceVersion"], "finalizers": kept}
        try:
            await api.merge(path, {"metadata": change})
            return True
        except Conflict:
            found = await api.get(path)
        except NotFound:
            found = None
    return False


def _name(quorum: Object) -> str:
    return f"{quorum['metadata']['namespace']}/{quorum['metadata']['name']}"


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quorum_operator.release", description=__doc__)
    parser.add_argument("--namespace", required=True, help="of the operator")
    parser.add_argument("--deployment", required=True, help="of the operator")
    parser.add_argument("--selector", required=True, help="label selector of the operator's pods")
    parser.add_argument("--watch-namespace", action="append", default=[], help="default: all")
    parser.add_argument("--timeout-seconds", type=float, default=120.0)
    return parser.parse_args(given)


async def _run(options: argparse.Namespace) -> int:
    installed = Installation(
        options.namespace, options.deployment, options.selector, tuple(options.watch_namespace)
    )
    async with KubeApi(load_configuration()) as api:
        try:
            let_go = await release(api, installed, options.timeout_seconds)
        except (ApiError, NotInTime) as failure:
            print(f"release: {failure}", file=sys.stderr)
            return 1
    print(f"the operator is stopped; finalizer taken off {len(let_go)} quorums", *let_go)
    return 0


def main(given: Sequence[str] | None = None) -> int:
    """0 when nothing waits for the operator any more, 1 with the reason on stderr."""
    return asyncio.run(_run(_arguments(given)))


if __name__ == "__main__":
    sys.exit(main())
