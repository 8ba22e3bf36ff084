"""`quorum-state`: Kafka's v1 JSON plus private keys, replaced durably at every save (K595-03).

Kafka's keys are leaderId, leaderEpoch, votedId, votedDirectoryId and data_version; a Java reader
ignores all others. Ours: replicaUuid, clusterId, appliedOffset, committedVoters (Kafka's v0 has
`currentVoters`, and a Java reader of v1 fails on a key of that name), targetVoters, votersOffset,
votersEpoch, formed. The first load upgrades a v0 file (no UUIDs) in place. The replica UUID comes
from meta.properties; no new one is generated for existing data (K853-01). Must not know when a vote
may be granted.

    {"privateVersion":1, ... ,"crc32c":"0123abcd"}

The last key is the CRC-32C of all bytes before it. Two kinds of files have none: those of stock Kafka, and those of
this project before `privateVersion`. Such a file is accepted as undamaged if it has neither our first nor our last key,
has only keys of its writer, and has no key twice. Its first load rewrites it with a checksum.
"""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from quorum_node.json_text import read_json
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, parse_uuid, uuid_text
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.errors import StorageFailure, WrongDirectory, storage_errors, unless_full
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.quorum_state_checksum import CHECKED
from quorum_node.storage.quorum_state_checksum import FILE_NAME as FILE_NAME
from quorum_node.storage.synced_end import forget_synced_end

_NOBODY = -1
_KAFKA_V0 = frozenset({"leaderId", "leaderEpoch", "votedId", "data_version"})
_KAFKA_V1 = _KAFKA_V0 | {"votedDirectoryId"}
_MORE_IN_V0 = frozenset({"clusterId", "appliedOffset", "currentVoters"})
_MORE_IN_V1 = frozenset(
    {
        "replicaUuid",
        "clusterId",
        "appliedOffset",
        "committedVoters",
        "targetVoters",
        "votersOffset",
        "votersEpoch",
        "formed",
    }
)
"""Keys that this project wrote before it wrote checksums."""

_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1
_RANGES = (
    ("leaderId", _NOBODY, _INT32),
    ("leaderEpoch", 0, _INT32),
    ("votedId", _NOBODY, _INT32),
    ("data_version", 0, _INT32),
    ("appliedOffset", 0, _INT64),
    ("votersOffset", -1, _INT64),
    ("votersEpoch", -1, _INT32),
)
"""Numbers of a file without a checksum: a damaged one must not become an epoch or a vote."""

_JSON = json.JSONEncoder(separators=(",", ":")).encode


class QuorumStateFile:
    """The file of one partition of one replica."""

    def __init__(self, directory: Path, replica_uuid: UUID, files: FileSystem = POSIX) -> None:
        self._files = files
        self._path = directory / FILE_NAME
        self._replica_uuid = replica_uuid

    def load(self) -> QuorumState | None:
        """The saved state, None if there is no file.

        Raises StorageFailure if it is damaged, WrongDirectory if it belongs to another replica.
        """
        content = read_file(self._path, self._files)
        if content is None:
            return None
        try:
            document = read_json(content, with_pairs=_each_key_once)
            is_checked = CHECKED.check(content)
            version = document["data_version"]
            if type(version) is not int:
                raise ValueError(f"data_version={version!r} is not a number")
            if version not in (0, 1):
                raise WrongDirectory(f"{self._path} has data_version {version}, not 0 or 1")
            if not is_checked:
                _check_keys(document, version)
            owner = document.get("replicaUuid")
            if owner is not None and parse_uuid(owner) != self._replica_uuid:
                raise WrongDirectory(
                    f"{self._path} belongs to replica {owner}, but meta.properties has"
                    f" {uuid_text(self._replica_uuid)}: the directory contains files of two replicas"
                )
            state = _from_v0(document) if version == 0 else _from_v1(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            shown = content[:200]
            raise StorageFailure(f"{self._path} is damaged ({error!r}): {shown!r}") from error
        if not is_checked:
            # The writer of this file did not maintain `synced-end`, and may have truncated the log
            # below it.
            with storage_errors(f"open {self._path.parent}"):
                forget_synced_end(self._path.parent, self._files)
            with unless_full():  # the file is still valid; the next save rewrites it
                self.save(state)
        return state

    def check(self) -> None:
        """Check the file on the disk; can be called from any thread.

        Raises StorageFailure if it is damaged.
        """
        content = read_file(self._path, self._files, from_disk=True)
        try:
            if content is not None:
                CHECKED.check(content)
        except ValueError as error:
            raise StorageFailure(f"{self._path} is damaged: {error}") from error

    def save(self, state: QuorumState) -> None:
        """Save the state; it is durable when this returns. Raises StorageFailure or DiskFull."""
        document = {"privateVersion": 1, **_to_v1(state)}
        document["replicaUuid"] = uuid_text(self._replica_uuid)
        text = _JSON(document)
        content = CHECKED.seal(text.removesuffix("}").encode())
        replace_file(self._path, content, self._files)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key occurs more than once")
    return document


def _check_keys(document: dict[str, Any], version: int) -> None:
    """Raise ValueError unless a file without a checksum has exactly the keys of its writer."""
    needed, allowed = (_KAFKA_V0, _MORE_IN_V0) if version == 0 else (_KAFKA_V1, _MORE_IN_V1)
    if missing := needed - document.keys():
        raise ValueError(f"missing keys: {', '.join(sorted(missing))}")
    if unknown := document.keys() - needed - allowed:
        raise ValueError(f"it has no checksum and unknown keys: {', '.join(sorted(unknown))}")
    for key, least, most in _RANGES:
        value = document.get(key, least)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{key}={value!r} is not a number from {least} to {most}")


def _to_v1(state: QuorumState) -> dict[str, Any]:
    voted = state.voted
    document: dict[str, Any] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": _NOBODY if voted is None else voted.id,
        "votedDirectoryId": uuid_text(None if voted is None else voted.uuid),
        "data_version": 1,
        "clusterId": state.cluster_id
        or "",  # Kafka reads the field in both versions, and does not accept null
        "appliedOffset": state.applied_offset,
        "committedVoters": [_voter_document(voter) for voter in state.current_voters],
        "votersOffset": state.voters_offset,
        "votersEpoch": state.voters_epoch,
        "formed": state.formed,
    }
    if state.target_voters is not None:
        document["targetVoters"] = [_key_document(key) for key in state.target_voters]
    return document


def _from_v1(document: dict[str, Any]) -> QuorumState:
    target = document.get("targetVoters")
    return QuorumState(
        leader_epoch=int(document["leaderEpoch"]),
        leader_id=int(document["leaderId"]),
        voted=_voted(int(document["votedId"]), document["votedDirectoryId"]),
        cluster_id=document.get("clusterId") or None,
        applied_offset=int(document.get("appliedOffset", 0)),
        current_voters=tuple(_voter(entry) for entry in document.get("committedVoters", [])),
        target_voters=None if target is None else tuple(_key(entry) for entry in target),
        voters_offset=int(document.get("votersOffset", -1)),
        voters_epoch=int(document.get("votersEpoch", -1)),
        formed=bool(document.get("formed", False)),
    )


def _from_v0(document: dict[str, Any]) -> QuorumState:
    # v0 has only ids of voters; their keys are read from the log
    return QuorumState(
        leader_epoch=int(document["leaderEpoch"]),
        leader_id=int(document["leaderId"]),
        voted=_voted(int(document["votedId"]), uuid_text(None)),
        cluster_id=document.get("clusterId") or None,
    )


def _voted(voted_id: int, directory_id: str) -> ReplicaKey | None:
    if voted_id == _NOBODY:
        return None
    uuid = parse_uuid(directory_id)
    return ReplicaKey(voted_id, uuid if uuid.int else None)


def _key_document(key: ReplicaKey) -> dict[str, Any]:
    return {"voterId": key.id, "voterDirectoryId": uuid_text(key.uuid)}


def _key(document: dict[str, Any]) -> ReplicaKey:
    uuid = parse_uuid(document["voterDirectoryId"])
    return ReplicaKey(int(document["voterId"]), uuid if uuid.int else None)


def _voter_document(voter: Voter) -> dict[str, Any]:
    return {
        **_key_document(voter.key),
        "endpoints": [{"name": e.name, "host": e.host, "port": e.port} for e in voter.endpoints],
        "minKraftVersion": voter.min_kraft_version,
        "maxKraftVersion": voter.max_kraft_version,
    }


def _voter(document: dict[str, Any]) -> Voter:
    endpoints = tuple(
        Endpoint(str(e["name"]), str(e["host"]), int(e["port"])) for e in document["endpoints"]
    )
    return Voter(
        _key(document),
        endpoints,
        int(document.get("minKraftVersion", 0)),
        int(document.get("maxKraftVersion", 1)),
    )
