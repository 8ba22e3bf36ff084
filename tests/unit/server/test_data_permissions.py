"""A data directory that this user may not use is a mistake in the configuration, not a failed disk."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest

from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.exit_codes import ExitCode
from quorum_node.server.ending import termination
from quorum_node.server.process import main
from quorum_node.server.starting.data_permissions import check_permissions
from quorum_node.storage.directory import format_directory
from quorum_node.storage.meta_properties import MetaProperties
from support.hosted_node import config_of

NOBODY = 65534
META = MetaProperties(1, UUID(int=1), "cluster")


@pytest.fixture
def data() -> Iterator[Path]:
    """A formatted directory of NOBODY.

    It is not below `tmp_path`: pytest closes the parent of its directories to other users at the start of each session.
    """
    with TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        path = Path(parent) / "data"
        format_directory(path, META)
        owned = [path, *path.rglob("*")]
        for each in owned:
            os.chown(each, NOBODY, NOBODY)
        yield path
        for each in owned:
            os.chmod(each, 0o700)


@contextmanager
def without_principal() -> Iterator[None]:
    """Root may use everything, so the check runs as another user."""
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def config(path: Path) -> NodeConfig:
    return config_of(path)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes the user")


@needs_root
def test_usable_directory_passes(data: Path) -> None:
    (data / "lost+found").mkdir(mode=0o700)
    for foreign in (data / "aquota.user", data / "__cluster_metadata-0" / "core"):
        foreign.write_text("")
        foreign.chmod(0o600)
    with without_principal():
        check_permissions(config(data))
        check_permissions(config(data / "new" / "deeper"))


@needs_root
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("", 0o000),
        ("", 0o500),
        ("meta.properties", 0o000),
        ("__cluster_metadata-0", 0o000),
        ("__cluster_metadata-0", 0o500),
        ("__cluster_metadata-0/quorum-state", 0o200),
    ],
)
def test_missing_permission_is_named(data: Path, name: str, mode: int) -> None:
    (data / name).chmod(mode)
    with without_principal(), pytest.raises(ConfigError) as caught:
        check_permissions(config(data))
    assert f"metadata.log.dir={data}" in str(caught.value)
    assert f"{NOBODY} may not use {data / name}" in str(caught.value)


@needs_root
def test_missing_permission_has_its_own_exit_code(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator recreates the pod, which it would not do for a wrong value of a key."""
    properties = data.parent / "node.properties"
    values = {
        "node.id": 1,
        "metadata.log.dir": data,
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "admin.listener": "http://127.0.0.1:8080",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    properties.chmod(0o644)
    data.chmod(0o000)
    monkeypatch.setattr(main, "exit_now", lambda code: None)
    monkeypatch.setattr(termination, "guard_exit", lambda code: None)
    with without_principal():
        assert main.main(["--config", str(properties)]) == ExitCode.NO_PERMISSION
    data.chmod(0o700)
    properties.write_text(properties.read_text() + "no.such.key=1\n")
    assert main.main(["--config", str(properties)]) == ExitCode.BAD_CONFIGURATION


@needs_root
def test_directory_that_cannot_be_created_is_named(data: Path) -> None:
    data.chmod(0o500)
    with without_principal(), pytest.raises(ConfigError, match="may not use"):
        check_permissions(config(data / "new"))


def test_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("")
    for each in (path, path / "deeper"):
        with pytest.raises(ConfigError, match="is not a directory"):
            check_permissions(config(each))
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    with pytest.raises(ConfigError, match="is not a directory"):
        check_permissions(config(tmp_path / "link"))


@pytest.mark.parametrize("call", ["lstat", "stat", "open", "listdir", "statvfs"])
def test_failed_disk_is_not_reported_as_a_wrong_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    data = tmp_path / "data"
    format_directory(data, META)

    def fail(*args: object, **named: object) -> object:
        raise OSError(errno.EIO, "Input/output error")

    checked = config(data)
    monkeypatch.setattr(os, call, fail)
    check_permissions(checked)
