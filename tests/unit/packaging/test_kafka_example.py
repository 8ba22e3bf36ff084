"""examples/kafka beside what it is tested with."""

import re
import subprocess

import yaml

from support import stock_kafka
from support.kind_env.kafka import EXAMPLE, documents, identities
from support.kind_env.testbed import KAFKA_IMAGE


def test_example_uses_the_kafka_version_of_the_interop_tests() -> None:
    (version,) = re.findall(r"<kafka.version>(.+)</kafka.version>", stock_kafka.POM.read_text())
    assert f"apache/kafka:{version}" == KAFKA_IMAGE
    for name in ("brokers.yaml", "mixed-brokers.yaml", "tools.yaml"):
        assert (EXAMPLE / name).read_text().count(f"image: {KAFKA_IMAGE}\n") == 1


def test_quorum_and_image_are_replaced_in_all_files() -> None:
    text = yaml.safe_dump_all(documents("q", "here:1"))
    assert "demo" not in text
    assert KAFKA_IMAGE not in text
    assert "controller.quorum.bootstrap.servers=q-bootstrap:9093" in text
    assert "name: q-identity" in text


def test_every_broker_mounts_the_certificate_issued_by_the_quorum() -> None:
    """The Secret's name consists of the quorum and the identity, as in docs/how-to/certificates.md."""
    holders = {each["name"]: each["nodeId"] for each in identities()["identities"]}
    (brokers,) = (each for each in documents("q", "i") if each["kind"] == "StatefulSet")
    first, count = brokers["spec"]["ordinals"]["start"], brokers["spec"]["replicas"]
    assert holders == {f"kafka-{number}": number for number in range(first, first + count)}
    volumes = {each["name"]: each for each in brokers["spec"]["template"]["spec"]["volumes"]}
    sources = [each["secret"] for each in volumes["tls"]["projected"]["sources"]]
    assert {each["name"] for each in sources} == {f"q-{holder}-tls" for holder in holders}
    for source in sources:
        folder = source["name"].removeprefix("q-").removesuffix("-tls")
        assert {each["path"] for each in source["items"]} == {
            f"{folder}/keystore.pem",
            f"{folder}/ca.crt",
        }


def test_clients_use_sasl_and_all_other_peers_certificates() -> None:
    (config,) = (
        each
        for each in documents("q", "i")
        if each["kind"] == "ConfigMap" and "broker.properties" in each["data"]
    )
    lines = dict(
        line.split("=", 1) for line in config["data"]["broker.properties"].splitlines() if line
    )
    kinds = dict(each.split(":") for each in lines["listener.security.protocol.map"].split(","))
    assert kinds == {"CONTROLLER": "SSL", "BROKERS": "SSL", "CLIENTS": "SASL_SSL"}
    assert lines["ssl.client.auth"] == "required"
    assert lines["inter.broker.listener.name"] == "BROKERS"
    assert lines["authorizer.class.name"].endswith("StandardAuthorizer")


def test_example_scripts_are_valid_shell() -> None:
    scripts = [
        text
        for each in documents("q", "i")
        if each["kind"] == "ConfigMap"
        for name, text in each["data"].items()
        if name.endswith(".sh")
    ]
    assert len(scripts) == 2
    for script in scripts:
        assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
