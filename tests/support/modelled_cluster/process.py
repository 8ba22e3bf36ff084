"""The process of a member in a modelled pod: what it checks at its start, when it ends, and which files it has read."""

import json
import random
import re
from base64 import b64decode
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from quorum_node.exit_codes import ExitCode, TerminationReason
from quorum_node.records.identity import uuid_text
from quorum_node.survivor import parse_survivor
from quorum_operator.certificates import checks, documents, holders, pem
from quorum_operator.certificates.pem import Read
from quorum_operator.desired.names import CONFIG_FILE, SECURE_ADMIN_PORT, Owner
from quorum_operator.kube.facts import founding_facts, overrides_in
from support.modelled_cluster.raft import Key, ModelledQuorum
from support.modelled_cluster.store import Object
from support.modelled_cluster.volumes import ModelledDisk, Replica

TOKEN_S = 10.0
"""Until a process has read a changed token."""
_TIMEOUT = re.compile(r"^controller\.quorum\.fetch\.timeout\.ms=(.*)$", re.MULTILINE)
_STRANGER = 4444


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended. `reason`: of Kubernetes."""

    code: int
    message: str = ""
    reason: str = "Error"


def exit_of(reason: TerminationReason, message: str) -> Exit:
    text = json.dumps({"reason": reason.value, "message": message})
    return Exit(int(reason.exit_code), text)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The certificates that a process uses."""

    certificate: Read
    bundle: tuple[Read, ...]
    chain: tuple[Read, ...]


class Process:
    """One container's process. `mounted`: the objects in its volumes, by kind and name, as its kubelet has written them."""

    def __init__(self, pod: Object, disk: ModelledDisk, quorum: ModelledQuorum) -> None:
        self.pod, self.disk, self.quorum = pod, disk, quorum
        container = pod["spec"]["containers"][0]
        self.image = container.get("image")
        self.overrides = overrides_in(pod["spec"])
        self.node_id = int(self.overrides["node.id"])
        ports = [each["containerPort"] for each in container.get("ports") or []]
        self.secured = SECURE_ADMIN_PORT in ports
        self.frozen = False
        self.replica: Replica | None = None
        """What it has opened; its disk may be emptied meanwhile."""
        self.token: str | None = None
        self.loaded: Loaded | None = None
        self._token_version: tuple[str, float] | None = None
        self._secret_version = ""

    @property
    def key(self) -> Key:
        assert self.replica is not None
        return Key(self.node_id, self.replica.uuid)

    @property
    def serves(self) -> bool:
        return not (self.frozen or self.disk.frozen)

    def trusts(self, other: "Process") -> bool:
        """Whether a connection of two processes is accepted by this one."""
        if not (self.secured and other.secured):
            return self.secured == other.secured
        if self.loaded is None or other.loaded is None:
            return False
        return pem.anchor_of(other.loaded.chain, self.loaded.bundle) is not None

    # ---- Start

    def start(
        self, properties: str, rng: random.Random, *, latched: bool, formatted: bool
    ) -> Exit | None:
        """Check what a node checks, after its files were read; None if it runs. `formatted`: an earlier process of this pod
        had a directory.
        """
        security = self.pod["spec"].get("securityContext") or {}
        if security.get("runAsUser") == _STRANGER or self.disk.closed:
            return exit_of(TerminationReason.NO_PERMISSION, "the data directory can't be read")
        for value in _TIMEOUT.findall(properties):
            if not value.strip().isdigit():
                text = f"controller.quorum.fetch.timeout.ms: {value} is no number"
                return exit_of(TerminationReason.BAD_CONFIGURATION, text)
        if self.secured and self.loaded is None:
            text = "listener CONTROLLER can't use TLS: keystore.pem does not exist"
            return exit_of(TerminationReason.BAD_CONFIGURATION, text)
        if latched or self.disk.corrupt:
            return exit_of(TerminationReason.STORAGE_FAILED, "the log can't be trusted")
        failed = self.fault()
        if failed is not None:
            return failed
        if formatted and self.disk.replica is None:
            text = "the directory is empty, but this pod formatted it before: its data is lost"
            return exit_of(TerminationReason.STORAGE_FAILED, text)
        return self._open(rng)

    def fault(self) -> Exit | None:
        """The end of a process whose disk does not take writes."""
        if self.disk.failed or self.disk.read_only:
            return exit_of(TerminationReason.STORAGE_FAILED, "EIO")
        if self.disk.full:
            return exit_of(TerminationReason.DISK_FULL, "no space left on device")
        return None

    def _open(self, rng: random.Random) -> Exit | None:
        cluster_id = self.overrides["cluster.id"]
        replica = self.disk.replica
        if replica is not None and replica.cluster_id != cluster_id:
            text = f"the directory belongs to the cluster {replica.cluster_id}"
            return exit_of(TerminationReason.IDENTITY_MISMATCH, text)
        if replica is None:
            founding = founding_facts(self.overrides)
            founds = founding is not None and founding.founder_id == self.node_id
            uuid = uuid_text(UUID(int=rng.getrandbits(128), version=4)).replace("-", "A")
            if founds and founding is not None:
                uuid = founding.founder_uuid
                self.quorum.initial_voters = founding.initial_voters
            self.disk.replica = replica = Replica(self.node_id, uuid, cluster_id)
            if founds:
                self.quorum.found(replica)
        self.replica = replica
        return self._recover(replica)

    def _recover(self, replica: Replica) -> Exit | None:
        args: list[str] = self.pod["spec"]["containers"][0].get("args") or []
        if "--recover" not in args:
            return None
        survivor = parse_survivor(args[args.index("--recover") + 1])
        if uuid_text(survivor.uuid) != replica.uuid:
            return None  # It was carried out, or is about another replica.
        if (survivor.epoch, survivor.end_offset) != (replica.epoch, replica.end):
            text = f"the log ends at {replica.end} of epoch {replica.epoch}"
            return exit_of(TerminationReason.IDENTITY_MISMATCH, text)
        if self.quorum.has_majority():
            return exit_of(TerminationReason.IDENTITY_MISMATCH, "a majority has a leader")
        self.quorum.recover(replica, uuid_text(survivor.recovered_uuid))
        return None

    # ---- Files

    def read_token(self, secret: Object | None, now: float) -> None:
        """A changed token is read after a while."""
        if secret is None:
            return
        version = secret["metadata"]["resourceVersion"]
        if self._token_version is None or self._token_version[0] != version:
            due = now if self.token is None else now + TOKEN_S
            self._token_version = version, due
        if now >= self._token_version[1]:
            encoded = (secret.get("data") or {}).get("token")
            try:
                self.token = b64decode(encoded or "").decode().strip() or self.token
            except ValueError:
                pass

    def read_certificates(self, owner: Owner, secret: Object | None, now: float) -> None:
        """Takes over the bundle and the key pair if they can be used."""
        if not self.secured or secret is None:
            return
        version = secret["metadata"]["resourceVersion"]
        if version == self._secret_version:
            return
        self._secret_version = version
        name = self.pod["metadata"]["name"].removesuffix("-0")
        place = owner.parse_member(name)
        if place is None:
            return
        holder = holders.member(owner, *place)
        bundle = documents.bundle_of(owner, holder, secret)
        data = checks.decoded(secret.get("data"))
        pair: Any = checks.check_leaf("", data, owner, holder, bundle, now)
        if isinstance(pair, Read):
            self.loaded = Loaded(pair, bundle, pem.read_all(data[checks.CERTIFICATE]))
        elif self.loaded is not None and pem.anchor_of(self.loaded.chain, bundle) is not None:
            self.loaded = Loaded(self.loaded.certificate, bundle, self.loaded.chain)


def config_file(pod: Object) -> str:
    """Key of the file with the properties in the ConfigMap that a pod mounts."""
    for volume in pod["spec"].get("volumes") or []:
        for item in (volume.get("configMap") or {}).get("items") or []:
            return str(item["key"])
    return CONFIG_FILE


__all__ = ["Exit", "ExitCode", "Process", "config_file"]
