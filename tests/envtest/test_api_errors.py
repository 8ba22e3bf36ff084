"""The API server is slow, unavailable for a while, or has dropped the version of a watch: the operator continues."""

import asyncio
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import Conflict, Invalid
from quorum_operator.kube.watch import Collection, Watch
from support.envtest.environment import Env
from support.kind import ControlPlane
from support.kind_env import kube
from support.kind_env.waiting import wait_for

pytestmark = pytest.mark.envtest

_EAGER = {"debounceSeconds": 1, "maxReplacementsPerHour": 60}
_SLOW_S = 1.0
_QUORUMS = "/apis/metadataquorum.dev/v1alpha1/metadataquorums"


def configuration(server: ControlPlane) -> Configuration:
    found = Configuration()
    load_kube_config(config_file=str(server.kubeconfig), client_configuration=found)
    return found


@pytest.mark.timeout(60)
@pytest.mark.requirement("OP-03")
def test_expired_resource_version_causes_a_new_list(api_server: ControlPlane, env: Env) -> None:
    """A real 410: the API server has versions of this kind only from the time when the kind was defined."""
    env.apply(1)
    reported: list[Any] = []

    async def work() -> Watch:
        async with KubeApi(configuration(api_server)) as api:
            watch = Watch(api, Collection(_QUORUMS), lambda *each: reported.append(each))
            watch._version = "1"
            watch.copies.put(("", "ghost"), {"metadata": {"name": "ghost", "resourceVersion": "1"}})
            task = asyncio.create_task(watch.run())
            async with asyncio.timeout(30):
                while ("", "ghost") in watch.objects or not watch.is_current():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return watch

    watch = asyncio.run(work())
    assert watch.lists == 1
    assert (env.namespace, "q") in watch.objects
    assert [old["metadata"]["name"] for old, new in reported if new is None] == ["ghost"]


@pytest.mark.timeout(60)
def test_patch_of_a_changed_object_is_a_conflict_and_an_invalid_patch_is_not(
    api_server: ControlPlane, env: Env
) -> None:
    """Otherwise a race with another writer is reported as a change that the API server rejects."""
    path = kube.core(env.namespace, "configmaps", "raced")
    document = {"metadata": {"name": "raced"}, "data": {"a": "1"}}
    env.api.create(path.rpartition("/")[0], {"apiVersion": "v1", "kind": "ConfigMap", **document})
    change = {"op": "add", "path": "/data/b", "value": "2"}

    async def work() -> None:
        async with KubeApi(configuration(api_server)) as api:
            for field in ("uid", "resourceVersion"):
                test = {"op": "test", "path": f"/metadata/{field}", "value": "1"}
                with pytest.raises(Conflict):
                    await api.patch(path, [test, change])
            with pytest.raises(Invalid):
                await api.patch(path, [{**change, "path": "/data/ not a key"}])
            await api.patch(path, [change])

    asyncio.run(work())
    assert env.api.get(path)["data"] == {"a": "1", "b": "2"}


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.requirement("OP-03")
def test_slow_api_server_delays_repairs_and_transfers_no_lease(env: Env) -> None:
    operator, proxy = env.add_operator(lease=True)
    operator.start()
    quorum = env.create(3, repair=_EAGER)
    env.cluster.run(lambda: setattr(proxy, "delay_s", _SLOW_S))
    quorum.scale(5)
    quorum.wait_ready(5, timeout_s=180)
    assert len(quorum.steps_since()) == 4
    log = operator.log_path.read_text()
    assert log.count('"event": "leading"') == 1
    assert "no longer leading" not in log


@pytest.mark.timeout(280)
@pytest.mark.requirement("OP-03")
def test_operator_survives_an_outage_of_the_api_server(env: Env, api_server: ControlPlane) -> None:
    """Longer than the lease lasts: it is taken again, and what has changed meanwhile is seen."""
    operator, proxy = env.add_operator(lease=True)
    operator.start()
    quorum = env.create(3, repair=_EAGER)
    api_server.stop_api_server()
    # That it ends before others may take the lease is shown by the tests of the lease, in virtual time.
    wait_for(
        "it works no more",
        lambda: "no longer leading" in operator.log_path.read_text(),
        timeout_s=60,
    )
    api_server.start_api_server()
    quorum.scale(5)
    quorum.wait_ready(5, timeout_s=120)
    assert len(quorum.steps_since()) == 4
    assert operator.alive()
    assert operator.starts == 1
    # An API server that has just started has not loaded its roles yet, and rejects every request.
    proxy.to_api[:] = [each for each in proxy.to_api if each[1] != 403]
