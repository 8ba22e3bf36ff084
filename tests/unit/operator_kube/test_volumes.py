"""The hosts that volumes are tied to: by name, by any driver's label, and never by a zone."""

import asyncio
from typing import Any

import pytest

from quorum_operator.kube import paths
from quorum_operator.kube.errors import Unavailable
from quorum_operator.kube.volumes import SELECTED_NODE, read_volumes
from quorum_operator.planner.observed import VolumeFacts

pytestmark = pytest.mark.requirement("OP-04")
HOSTNAME = "kubernetes.io/hostname"
LOCAL_KEYS = (
    HOSTNAME,
    "topology.topolvm.io/node",
    "openebs.io/nodename",
    "openebs.io/nodeid",
    "local.csi.openebs.io/nodename",
    "topology.hostpath.csi/node",
    "linbit.com/hostname",
)
OTHER_KEYS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.ebs.csi.aws.com/zone",
    "csi.hetzner.cloud/location",
    "node.kubernetes.io/instance-type",
    "example.com/node-pool",
)


class Hosts:
    """Nodes by name with their labels, and one volume."""

    def __init__(self, volume: dict[str, Any] | None, nodes: dict[str, dict[str, str]]) -> None:
        self.volume, self.nodes = volume, nodes
        self.readable = True

    async def get(self, path: str) -> dict[str, Any] | None:
        return self.volume if path == paths.volume("pv") else None

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[dict[str, Any]]:
        assert path == paths.NODES
        if not self.readable:
            raise Unavailable(0, "Timeout", "")
        key, _, value = (labels or "").partition("=")
        name = (fields or "").removeprefix("metadata.name=")
        return [
            {"metadata": {"name": each, "labels": carried}}
            for each, carried in self.nodes.items()
            if (name == each if fields else key in carried and value in ("", carried[key]))
        ]


def term(*rules: tuple[str, tuple[str, ...]]) -> dict[str, Any]:
    found = [{"key": key, "operator": "In", "values": list(values)} for key, values in rules]
    return {"matchExpressions": found}


def volume(*terms: dict[str, Any]) -> dict[str, Any]:
    affinity = {"required": {"nodeSelectorTerms": list(terms)}}
    return {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": affinity}, "status": {}}


def look(hosts: Hosts, selected: str | None = None) -> VolumeFacts:
    notes = {} if selected is None else {SELECTED_NODE: selected}
    claim = {"metadata": {"annotations": notes}, "spec": {"volumeName": "pv"}}
    return asyncio.run(read_volumes(hosts, [claim]))["pv"]


@pytest.mark.parametrize("key", LOCAL_KEYS)
@pytest.mark.parametrize("value", ["h1", "8d2c-uid"])
def test_local_volume_is_lost_only_with_its_host(key: str, value: str) -> None:
    hosts = Hosts(volume(term((key, (value,)))), {"h1": {key: value}, "h2": {key: "h2"}})
    assert look(hosts) == VolumeFacts("pv", hosts=(value,), hosts_exist=True)
    del hosts.nodes["h1"]
    assert look(hosts) == VolumeFacts("pv", hosts=(value,), hosts_exist=False)
    assert not look(hosts, selected="h1").hosts_exist
    hosts.readable = False
    assert look(hosts).hosts_exist, "unreadable hosts count as absent"


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_zonal_volume_survives_the_loss_of_its_last_host(key: str) -> None:
    hosts = Hosts(volume(term((key, ("a",)))), {"h2": {key: "b"}})
    assert look(hosts) == VolumeFacts("pv", hosts=(), hosts_exist=True)


def test_zone_label_makes_no_difference_and_a_second_host_does() -> None:
    zone = ("topology.kubernetes.io/zone", ("a",))
    tied = Hosts(volume(term(zone, ("openebs.io/nodename", ("h1",)))), {"h2": {}})
    assert not look(tied).hosts_exist
    either = Hosts(volume(term((HOSTNAME, ("h1",))), term((HOSTNAME, ("h2",)))), {"h2": {}})
    assert look(either) == VolumeFacts("pv", hosts=("h1", "h2"), hosts_exist=True)
    free = Hosts(volume(term((HOSTNAME, ("h1",))), term(zone)), {"h2": {}})
    assert look(free).hosts == ()


def test_csi_topology_label_without_a_matching_node_is_not_a_lost_host() -> None:
    """Its value is no name of a Node: only the claim can name the host."""
    tied = volume(term(("openebs.io/nodeid", ("8d2c-uid",))))
    assert look(Hosts(tied, {"h1": {}, "h2": {}})).hosts_exist
    assert look(Hosts(tied, {"h1": {}, "h2": {}}), selected="h1").hosts_exist
    assert not look(Hosts(tied, {"h2": {}}), selected="h1").hosts_exist


def test_host_of_a_volume_is_recognized_by_any_label_name() -> None:
    tied = volume(term(("example.com/machine", ("h1",))))
    assert look(Hosts(tied, {"h2": {}})).hosts == (), "the host is unknown"
    assert not look(Hosts(tied, {"h2": {}}), selected="h1").hosts_exist
    assert look(Hosts(tied, {"h1": {}}), selected="h1").hosts_exist


class UnreadableHosts(Hosts):
    """Fails on every query."""

    async def get(self, path: str) -> dict[str, Any] | None:
        raise AssertionError(path)

    async def find(
        self, path: str, *, labels: str | None = None, fields: str | None = None
    ) -> list[dict[str, Any]]:
        raise AssertionError(path)


CLAIM = {"metadata": {}, "spec": {"volumeName": "pv"}}
TIED = volume(term((HOSTNAME, ("h1",))))
FAILED = {**TIED, "status": {"phase": "Failed"}}


def test_healthy_volume_in_the_cache_is_not_read_again() -> None:
    copies, live = Hosts(TIED, {"h1": {}}), UnreadableHosts(TIED, {})
    found = asyncio.run(read_volumes(live, [CLAIM, {"metadata": {}, "spec": {}}], copies))
    assert found == {"pv": VolumeFacts("pv", hosts=("h1",), hosts_exist=True)}


@pytest.mark.parametrize(
    "copies",
    [Hosts(FAILED, {"h1": {}}), Hosts(TIED, {"h2": {}}), Hosts(None, {"h1": {}})],
    ids=["failed", "without its host", "not there yet"],
)
@pytest.mark.parametrize("really", [TIED, FAILED], ids=["sound", "failed"])
def test_unhealthy_volume_in_the_cache_is_read_live(copies: Hosts, really: dict[str, Any]) -> None:
    live = Hosts(really, {"h1": {}})
    found = asyncio.run(read_volumes(live, [CLAIM], copies))
    assert found == asyncio.run(read_volumes(live, [CLAIM]))
