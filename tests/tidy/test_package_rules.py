"""The server's packages use each other through ports, and nobody sets another one's attributes."""

from pathlib import Path

import pytest

from support import package_rules


def test_every_module_is_in_a_package_with_rules() -> None:
    found = {package_rules.package_of(path) for path in package_rules.server_modules()}
    assert found - {""} == set(package_rules.PORTS) | package_rules.FOUNDATIONS


def test_packages_import_only_the_ports_of_each_other() -> None:
    found = [
        finding
        for path in package_rules.server_modules()
        for finding in package_rules.foreign_internals(path, package_rules.package_of(path))
        if package_rules.package_of(path)
    ]
    assert found == []


def test_leadership_is_used_by_its_partition_package_only(tmp_path: Path) -> None:
    found = [
        finding
        for path in package_rules.server_modules()
        for finding in package_rules.uses_of_leadership(path, package_rules.package_of(path))
    ]
    assert found == []
    path = tmp_path / "module.py"
    path.write_text("from quorum_node.raft.leadership import Leader\n")
    assert list(package_rules.uses_of_leadership(path, "controller"))
    assert not list(package_rules.uses_of_leadership(path, "partition"))


def test_no_attribute_is_assigned_from_outside() -> None:
    found = [
        finding
        for path in package_rules.server_modules()
        for finding in package_rules.foreign_assignments(path)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("package", "source", "finding"),
    [
        (
            "requests",
            "from quorum_node.server.partition.driver import ReplicaDriver\n",
            "no port of partition",
        ),
        ("admin", "from quorum_node.server.process import node_process\n", "no port of process"),
        (
            "controller",
            "def f():\n    import quorum_node.server.peers.pool\n",
            "no port of peers",
        ),
        ("wire", "from quorum_node.server.listener.port import Handler\n", "used by every package"),
    ],
)
def test_import_of_another_package_module_is_detected(
    package: str, source: str, finding: str, tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert any(finding in each for each in package_rules.foreign_internals(path, package))


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("requests", "from quorum_node.server.partition.port import Append\n"),
        ("partition", "from quorum_node.server.snapshots.snapshotter import Snapshotter\n"),
        ("process", "from quorum_node.server.listener.kafka_listener import KafkaListener\n"),
        ("admin", "from quorum_node.server.wire.partitions import METADATA_PARTITION\n"),
        ("admin", "from quorum_node.server.version import VERSION\n"),
    ],
)
def test_allowed_imports_are_not_reported(package: str, source: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert list(package_rules.foreign_internals(path, package)) == []


@pytest.mark.parametrize(
    "source",
    [
        "host.on_progress = self.check\n",
        "host.snapshotter.may_begin: object = None\n",
        "a, host.halt = 1, 2\n",
        "self.controller.epoch += 1\n",
        "self._listener.book.limits = None\n",
    ],
)
def test_attribute_assigned_from_outside_is_detected(source: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(list(package_rules.foreign_assignments(path))) == 1


def test_own_attributes_and_those_of_libraries_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("self.a = 1\nself.b, cls.c = 1, 2\nx = [0]\nx[0] = 1\ntimer.daemon = True\n")
    assert list(package_rules.foreign_assignments(path)) == []
