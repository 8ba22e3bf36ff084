"""examples/kafka with brokers of this software: what a pod would start with is what the node takes."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorum_node.configuration.node_config import check_config
from quorum_node.configuration.properties import read_pairs
from quorum_node.java_properties import parse_properties
from support.kind_env.kafka import EXAMPLE
from support.kind_env.python_kafka import python_documents
from support.yaml_text import read_yaml_all

CLUSTER_ID = "a-cluster"


def documents(name: str) -> list[dict[str, Any]]:
    return list(read_yaml_all((EXAMPLE / name).read_text()))


def of_kind(kind: str, name: str = "python-brokers.yaml") -> dict[str, Any]:
    return next(each for each in documents(name) if each["kind"] == kind)


def started_config(tmp_path: Path, pod: str) -> str:
    """What `start.sh` hands to quorum-node, run with programs of the test in its place."""
    data = of_kind("ConfigMap")["data"]
    script = data["start.sh"].replace("/etc/kafka-broker", str(tmp_path))
    script = script.replace("/tmp/broker.properties", str(tmp_path / "made.properties"))
    (tmp_path / "broker.properties").write_text(data["broker.properties"])
    program = tmp_path / "quorum-node"
    program.write_text('#!/bin/sh\n[ "$1" = --config ] && cat "$2"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "POD_NAME": pod,
        "CLUSTER_ID": CLUSTER_ID,
    }
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_each_pod_starts_a_broker_with_a_valid_configuration(tmp_path: Path) -> None:
    brokers = of_kind("StatefulSet")
    first = brokers["spec"]["ordinals"]["start"]
    for number in range(first, first + brokers["spec"]["replicas"]):
        made = tmp_path / "node.properties"
        made.write_text(started_config(tmp_path, f"kafka-{number}"))
        config = check_config(read_pairs(made))
        assert config.node_id == number
        assert config.cluster_id == CLUSTER_ID
        assert config.broker is not None
        (listener,) = config.listeners
        assert (listener.advertised.host, listener.advertised.port) == (
            f"kafka-{number}.kafka-nodes",
            9092,
        )
        assert config.broker.groups.replication_factor <= brokers["spec"]["replicas"]
        (container,) = brokers["spec"]["template"]["spec"]["containers"]
        mounted = {each["mountPath"] for each in container["volumeMounts"]}
        for log_dir in config.broker.log_dirs:
            assert any(log_dir.is_relative_to(each) for each in mounted - {"/tmp"})


def test_pods_equal_those_of_stock_brokers_except_for_tls() -> None:
    """The Services, the labels that network policies select, and the pod's security settings."""
    ours, stock = of_kind("StatefulSet"), of_kind("StatefulSet", "brokers.yaml")
    for path in (
        ("metadata", "name"),
        ("spec", "ordinals"),
        ("spec", "serviceName"),
        ("spec", "volumeClaimTemplates"),
        ("spec", "template", "metadata", "labels"),
        ("spec", "template", "spec", "securityContext"),
    ):
        mine: Any = ours
        theirs: Any = stock
        for step in path:
            mine, theirs = mine[step], theirs[step]
        assert mine == theirs, path
    names = {each["metadata"]["name"] for each in documents("python-brokers.yaml")}
    assert names == {each["metadata"]["name"] for each in documents("brokers.yaml")}
    quorum = documents("python-quorum.yaml")[0]
    assert quorum["spec"]["tls"] == {"mode": "Disabled"}
    (container,) = ours["spec"]["template"]["spec"]["containers"]
    assert container["image"] == quorum["spec"]["image"]


@pytest.mark.parametrize(
    ("name", "file"),
    [("python-brokers.yaml", "broker.properties"), ("combined.yaml", "node.properties")],
)
def test_messages_are_on_as_many_brokers_as_with_stock_ones(name: str, file: str) -> None:
    """Before they are acknowledged: the disk of one broker may fail."""
    ours = parse_properties(of_kind("ConfigMap", name)["data"][file])
    stock = parse_properties(of_kind("ConfigMap", "brokers.yaml")["data"]["broker.properties"])
    for key in ("min.insync.replicas", "offsets.topic.replication.factor"):
        assert ours[key] == stock[key], key


def test_quorum_name_is_replaced_everywhere_and_the_tools_need_no_certificate() -> None:
    found = python_documents("q", "node:1", "kafka:1")
    text = yaml.safe_dump_all(found)
    assert "demo" not in text
    assert "controller.quorum.bootstrap.servers=q-bootstrap:9093" in text
    assert "name: q-identity" in text
    (tools,) = (each for each in found if each["kind"] == "Pod")
    volumes = {each["name"] for each in tools["spec"]["volumes"]}
    (container,) = tools["spec"]["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    assert volumes == {"tmp", "tools", "user", "program"}
