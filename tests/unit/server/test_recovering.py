"""`--recover` on a directory: what it writes, what it rejects, and that it can be interrupted anywhere."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.configuration.properties import ConfigError
from quorum_node.host_port import HostPort
from quorum_node.raft.election import is_only_voter
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.raft.replica import Replica
from quorum_node.records.batches import encode_batch
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, encode_control
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, parse_uuid, uuid_text
from quorum_node.server.ending.termination import Termination
from quorum_node.server.starting import recovering
from quorum_node.server.starting.recovering import recover
from quorum_node.server.starting.replica_building import build_replica
from quorum_node.server.starting.startup import open_replica
from quorum_node.server.starting.startup_connections import Dial
from quorum_node.storage import kept_copy
from quorum_node.storage.directory import format_directory, open_directory
from quorum_node.storage.directory_lock import lock_directory
from quorum_node.storage.errors import DiskFull, WrongDirectory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import MetaProperties, read_meta_properties
from quorum_node.storage.sole_voter import EPOCH_DISTANCE
from quorum_node.storage.synced_end import FILE_NAME as SYNCED_END
from quorum_node.survivor import Survivor, parse_survivor

pytestmark = pytest.mark.requirement("OP-07")

UUIDS = [parse_uuid(f"AAAAAAAAAAAAAAAAAAAA{each}Q") for each in "ABC"]
KEYS = tuple(ReplicaKey(number, uuid) for number, uuid in enumerate(UUIDS, 1))
ACCEPTED = Survivor(UUIDS[0], 4, 5)
RECOVERED = ReplicaKey(1, ACCEPTED.recovered_uuid)
NO_LATCH = FailureLatch(None)


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    """Of node 1, with a log that ends at 5 with epoch 4; it has voted in epoch 9, and has a committed offset of 4."""
    found = check_config(
        {
            "node.id": "1",
            "cluster.id": "c",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "admin.listener": "http://127.0.0.1:8080",
            "metadata.log.dir": str(tmp_path / "data"),
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        }
    )
    format_directory(found.data_dir, MetaProperties(1, UUIDS[0], "c"))
    directory = open_directory(
        found.data_dir, node_id=1, cluster_id="c", segment_bytes=1 << 20, latch=NO_LATCH
    )
    voters = tuple(
        Voter(key, (Endpoint("CONTROLLER", f"n{key.id}.invalid", 9093),), 0, 1, 1) for key in KEYS
    )
    first = (LeaderChange(2, KEYS, KEYS), KRaftVersion(1), VotersRecord(voters, "c", 3))
    log, end_offset = directory.first.log, 0
    for epoch, records in ((1, first), (2, (LeaderChange(1, KEYS, KEYS),)), (4, (first[0],))):
        data = encode_batch(
            base_offset=end_offset,
            leader_epoch=epoch,
            timestamp_ms=1,
            records=[encode_control(each) for each in records],
            control=True,
        )
        log.append(data, end_offset, end_offset + len(records), epoch)
        end_offset += len(records)
    log.flush()
    directory.first.state_file.save(QuorumState(9, 2, KEYS[0], "c", applied_offset=4, formed=True))
    log.close()
    return found


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> dict[HostPort, str]:
    """The nodes that answer, with the id of their cluster; none by default."""
    answering: dict[HostPort, str] = {}

    def ask(servers: list[HostPort], dial: Dial) -> list[tuple[HostPort, str]]:
        return [(server, answering[server]) for server in servers if server in answering]

    monkeypatch.setattr(recovering, "known_clusters", ask)
    return answering


def opened(config: NodeConfig) -> Replica:
    """As a start without the option finds it."""
    directory = open_replica(config, Termination())
    directory.first.log.close()
    return build_replica(config, directory.meta, directory.first)


def content(path: Path) -> dict[str, bytes]:
    """Without synced-end, which every start rewrites."""
    files = [p for p in path.rglob("*") if p.is_file() and p.name != SYNCED_END]
    return {str(p.relative_to(path)): p.read_bytes() for p in files}


def test_survivor_is_the_sole_voter_in_an_epoch_above_all_others(config: NodeConfig) -> None:
    before = content(config.data_dir)
    recover(config, ACCEPTED, NO_LATCH)
    replica = opened(config)
    assert replica.key == RECOVERED
    assert replica.voters.latest.voters.ordered_keys == (RECOVERED,)
    assert replica.voters.latest.offset == 6
    assert replica.voters.latest.epoch == replica.epoch == 9 + EPOCH_DISTANCE
    assert (replica.voted, replica.formed, replica.cluster_id) == (RECOVERED, True, "c")
    assert replica.high_watermark == 4, (
        "an uncommitted end was reported as committed before the election"
    )
    assert set(replica.voters.latest.record.tombstones) == set(KEYS)
    assert replica.may_campaign()
    kept = content(config.data_dir / "before-recovery-5-4")
    assert kept == before


def test_repeated_recovery_has_no_effect(config: NodeConfig) -> None:
    recover(config, ACCEPTED, NO_LATCH)
    before = content(config.data_dir)
    recover(config, ACCEPTED, NO_LATCH)
    assert content(config.data_dir) == before


@pytest.mark.parametrize(
    ("accepted", "words"),
    [
        (Survivor(UUIDS[0], 4, 6), "ends at offset 5 with epoch 4"),
        (Survivor(UUIDS[0], 3, 5), "ends at offset 5 with epoch 4"),
        (Survivor(UUIDS[1], 4, 5), "belongs to another replica"),
    ],
)
def test_confirmation_for_anything_else_changes_nothing(
    config: NodeConfig, accepted: Survivor, words: str
) -> None:
    before = content(config.data_dir)
    with pytest.raises(WrongDirectory, match=words):
        recover(config, accepted, NO_LATCH)
    assert content(config.data_dir) == before


def test_reachable_majority_is_not_split(
    config: NodeConfig, reachable: dict[HostPort, str]
) -> None:
    reachable[HostPort("n3.invalid", 9093)] = "c"
    before = content(config.data_dir)
    with pytest.raises(ConfigError, match="2 of 3 voters can be reached"):
        recover(config, ACCEPTED, NO_LATCH)
    assert content(config.data_dir) == before
    reachable[HostPort("n3.invalid", 9093)] = "of another cluster"
    recover(config, ACCEPTED, NO_LATCH)


def test_empty_directory_is_rejected_and_stays_empty(config: NodeConfig, tmp_path: Path) -> None:
    config.data_dir.rename(tmp_path / "elsewhere")
    config.data_dir.mkdir()
    with pytest.raises(WrongDirectory, match="no replica"):
        recover(config, ACCEPTED, NO_LATCH)
    assert list(config.data_dir.iterdir()) == []


def test_disk_without_space_for_the_copy_is_not_modified(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 10

    monkeypatch.setattr(kept_copy.shutil, "disk_usage", lambda path: Usage)
    before = content(config.data_dir)
    with pytest.raises(DiskFull, match="10 are free"):
        recover(config, ACCEPTED, NO_LATCH)
    assert content(config.data_dir) == before


class Cut(BaseException):
    """The process was killed here."""


STEPS = ("keep_copy", "append_sole_voter", "save_sole_voter", "rename_replica")


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_interrupted_recovery_is_harmless_and_completed_by_the_next_run(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch, step: str, done: bool
) -> None:
    carry_out: Callable[..., object] = getattr(recovering, step)

    def cut(*arguments: object) -> None:
        if done:
            carry_out(*arguments)
        raise Cut

    with monkeypatch.context() as patched:
        patched.setattr(recovering, step, cut)
        with pytest.raises(Cut):
            recover(config, ACCEPTED, NO_LATCH)
    try:
        elects_itself = is_only_voter(opened(config))
    except WrongDirectory:
        elects_itself = False
    assert elects_itself is (step == "rename_replica" and done)
    recover(config, ACCEPTED, NO_LATCH)
    replica = opened(config)
    assert replica.key == RECOVERED
    assert replica.voters.latest.voters.ordered_keys == (RECOVERED,)
    assert (replica.log_end, replica.epoch) == (7, 9 + EPOCH_DISTANCE), "written once"
    meta = read_meta_properties(config.data_dir)
    assert meta is not None
    assert meta.directory_id == RECOVERED.uuid


def test_only_one_process_may_use_a_directory(tmp_path: Path) -> None:
    held = lock_directory(tmp_path / "new")
    with pytest.raises(WrongDirectory, match="another process"):
        lock_directory(tmp_path / "new")
    os.close(held)
    os.close(lock_directory(tmp_path / "new"))


def test_confirmation_is_parsed_as_written_and_names_its_heir() -> None:
    assert parse_survivor(str(ACCEPTED)) == ACCEPTED
    uuids = {Survivor(UUIDS[0], epoch, 5).recovered_uuid for epoch in range(300)}
    assert len(uuids) == 300
    assert not any(uuid_text(uuid).startswith("-") for uuid in uuids)
    for wrong in ("", "x", f"{uuid_text(UUIDS[0])}:4", f"{uuid_text(UUIDS[0])}:-1:5", "x:1:2"):
        with pytest.raises(ValueError, match=r"UUID"):
            parse_survivor(wrong)
