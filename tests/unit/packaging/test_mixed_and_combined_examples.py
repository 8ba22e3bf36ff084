"""examples/kafka with brokers of both kinds, and with pods of both roles: what a pod would start with is what the node takes."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.configuration.properties import read_pairs
from quorum_node.java_properties import parse_properties
from support.kind_env.kafka import EXAMPLE
from support.kind_env.python_kafka import STOCK, python_documents
from support.yaml_text import read_yaml_all

MIXED = "mixed-brokers.yaml"
COMBINED = ("combined.yaml", "combined-founder.yaml")
CLUSTER_ID = "a-cluster"
ADVERTISED = {"CONTROLLER": 9093, "PLAINTEXT": 9092}


def documents(file: str) -> list[dict[str, Any]]:
    return list(read_yaml_all((EXAMPLE / file).read_text()))


def of_kind(kind: str, file: str, name: str = "kafka") -> dict[str, Any]:
    found = (each for each in documents(file) if each["kind"] == kind)
    return next(each for each in found if each["metadata"]["name"] == name)


def pod_of(stateful_set: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = stateful_set["spec"]["template"]["spec"]
    return spec


def names_of(stateful_set: dict[str, Any]) -> list[str]:
    spec, name = stateful_set["spec"], stateful_set["metadata"]["name"]
    first = spec["ordinals"]["start"]
    return [f"{name}-{number}" for number in range(first, first + spec["replicas"])]


def started(folder: Path, data: dict[str, str], script: str, mount: str, pod: str) -> str:
    """The configuration that a pod's script makes. `data`: the files of its ConfigMap; the program of the broker does nothing."""
    for name, text in data.items():
        (folder / name).write_text(text)
    made = folder / "made.properties"
    text = data[script].replace(mount, str(folder))
    for name in ("node", "broker"):
        text = text.replace(f"/tmp/{name}.properties", str(made))
    for program in ("quorum-node", "java"):
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "POD_NAME": pod,
        "CLUSTER_ID": CLUSTER_ID,
        "HEAP_MIB": "256",
    }
    subprocess.run(["sh", "-c", text], env=environment, check=True)
    return made.read_text()


def config_of(folder: Path, file: str, pod: str, *, formed: bool = False) -> NodeConfig:
    data = of_kind("ConfigMap", file)["data"]
    if formed:
        data.pop("formation.properties", None)
    mount = "/etc/kafka-broker" if file == MIXED else "/etc/kafka-node"
    path = folder / f"{pod}.properties"
    folder = folder / f"{pod}-{formed}"
    folder.mkdir(exist_ok=True)
    path.write_text(started(folder, data, "start.sh", mount, pod))
    return check_config(read_pairs(path))


# -- both roles in a pod


@pytest.mark.parametrize("file", COMBINED)
def test_each_pod_starts_both_roles_with_a_valid_configuration(tmp_path: Path, file: str) -> None:
    pods = of_kind("StatefulSet", file)
    (container,) = pod_of(pods)["containers"]
    mounted = {each["mountPath"] for each in container["volumeMounts"]} - {"/tmp"}
    for name in names_of(pods):
        config = config_of(tmp_path, file, name)
        assert config.node_id == int(name.removeprefix("kafka-"))
        assert config.broker is not None
        assert config.broker.is_member
        addresses = {each.name: each.advertised for each in config.listeners}
        for listener, port in ADVERTISED.items():
            assert (addresses[listener].host, addresses[listener].port) == (
                f"{name}.kafka-nodes",
                port,
            )
        assert config.auto_join, "a pod with an empty disk becomes a voter by itself"
        for directory in (config.data_dir, *config.broker.log_dirs):
            assert any(directory.is_relative_to(each) for each in mounted)
        latch = config.failure_latch_file
        assert latch is not None
        assert not any(latch.is_relative_to(each) for each in mounted)
    environment = {each["name"]: each.get("value") for each in container["env"]}
    common = parse_properties(of_kind("ConfigMap", file)["data"]["node.properties"])
    assert environment["QUORUMCTL_ADMIN"] == common["admin.listener"]


def test_the_voters_of_the_static_quorum_are_the_pods() -> None:
    file = COMBINED[0]
    pairs = parse_properties(of_kind("ConfigMap", file)["data"]["node.properties"])
    assert pairs["controller.quorum.voters"].split(",") == [
        f"{name.removeprefix('kafka-')}@{name}.kafka-nodes:9093"
        for name in names_of(of_kind("StatefulSet", file))
    ]


def test_one_pod_forms_the_quorum_and_none_once_the_keys_are_removed(tmp_path: Path) -> None:
    file = COMBINED[1]
    pods = names_of(of_kind("StatefulSet", file))
    for name in pods:
        formation = config_of(tmp_path, file, name).formation
        assert formation is not None
        assert f"kafka-{formation.founder_id}" == pods[0]
        assert config_of(tmp_path, file, name, formed=True).formation is None
    pairs = parse_properties(of_kind("ConfigMap", file)["data"]["formation.properties"])
    assert int(pairs["formation.initial.voters"]) == len(pods)


def test_both_examples_differ_in_the_formation_alone() -> None:
    static, founded = (documents(file) for file in COMBINED)
    assert [each for each in static if each["kind"] != "ConfigMap"] == [
        each for each in founded if each["kind"] != "ConfigMap"
    ]
    pairs = [
        parse_properties(of_kind("ConfigMap", file)["data"]["node.properties"]) for file in COMBINED
    ]
    assert pairs[0].pop("controller.quorum.voters")
    assert pairs[1].pop("controller.quorum.bootstrap.servers")
    assert pairs[0] == pairs[1]


# -- stock and Python brokers in one cluster


def test_python_brokers_of_the_mixed_cluster_are_those_of_the_other_example(tmp_path: Path) -> None:
    for name in names_of(of_kind("StatefulSet", MIXED)):
        assert config_of(tmp_path, MIXED, name).cluster_id == CLUSTER_ID
    name = "broker.properties"
    ours, other = (of_kind("ConfigMap", file)["data"] for file in (MIXED, "python-brokers.yaml"))
    assert parse_properties(ours[name]) == parse_properties(other[name])
    assert ours["start.sh"] == other["start.sh"]
    assert pod_of(of_kind("StatefulSet", MIXED)) == pod_of(
        of_kind("StatefulSet", "python-brokers.yaml")
    )


def test_settings_of_both_kinds_agree(tmp_path: Path) -> None:
    data = of_kind("ConfigMap", MIXED)["data"]
    text = started(tmp_path, data, "start-stock.sh", "/etc/kafka-broker", f"{STOCK}-201")
    stock, ours = parse_properties(text, unique=True), parse_properties(data["broker.properties"])
    assert (stock["node.id"], stock["advertised.listeners"]) == (
        "201",
        "PLAINTEXT://kafka-stock-201.kafka-nodes:9092",
    )
    both = (stock.keys() & ours.keys()) - {"listeners"}
    assert {"min.insync.replicas", "offsets.topic.num.partitions"} <= both
    assert {key: stock[key] for key in both} == {key: ours[key] for key in both}
    secured = parse_properties(of_kind("ConfigMap", "brokers.yaml")["data"]["broker.properties"])
    added = {"node.id", "advertised.listeners"}
    assert stock.keys() - added <= secured.keys(), "a key that the tested example does not have"
    brokers = of_kind("StatefulSet", MIXED, STOCK)["spec"]["replicas"]
    assert int(stock["transaction.state.log.replication.factor"]) <= brokers


def test_objects_of_both_kinds_belong_together() -> None:
    ours, stock = of_kind("StatefulSet", MIXED), of_kind("StatefulSet", MIXED, STOCK)
    assert not set(names_of(ours)) & set(names_of(stock))
    ids = [int(name.rpartition("-")[2]) for name in (*names_of(ours), *names_of(stock))]
    assert len(set(ids)) == len(ids)
    both = [each["spec"]["template"]["metadata"]["labels"] for each in (ours, stock)]
    for stateful_set, labels, others in zip((ours, stock), both, reversed(both), strict=True):
        own = stateful_set["spec"]["selector"]["matchLabels"]
        assert own.items() <= labels.items()
        assert not own.items() <= others.items()
        assert labels["metadataquorum.dev/role"] == "broker"
        assert stateful_set["spec"]["serviceName"] == "kafka-nodes"
    selectors = [
        each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
        for each in documents(MIXED)
        if each["kind"] in ("Service", "PodDisruptionBudget")
    ]
    assert len(selectors) == 3
    assert all(each.items() <= labels.items() for each in selectors for labels in both)
    assert pod_of(ours)["securityContext"] == pod_of(stock)["securityContext"]


def test_quorum_name_is_replaced_everywhere() -> None:
    text = yaml.safe_dump_all(python_documents("q", "node:1", "kafka:1", MIXED))
    assert "demo" not in text
    assert text.count("controller.quorum.bootstrap.servers=q-bootstrap:9093") == 2
    assert text.count("name: q-identity") == 2
