"""Names, labels, annotations, ports and paths: where the operator's objects are found again."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

APP = "metadataquorum"
OPERATOR_APP = "metadataquorum-operator"
"""LABEL_NAME of the operator's own pods."""
MANAGER = "metadataquorum-operator"
PREFIX = "metadataquorum.dev"

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_QUORUM = f"{PREFIX}/quorum"
"""The name of the quorum, by which StatefulSets select: Argo CD prunes claims that carry LABEL_INSTANCE."""
LABEL_ROLE = f"{PREFIX}/role"
"""On pods of others: broker or client of the quorum that LABEL_QUORUM names."""
LABEL_BACKUP = f"{PREFIX}/backup"
"""On Jobs and pods that write backups of the quorum that LABEL_QUORUM names."""
LABEL_NODE_ID = f"{PREFIX}/node-id"
LABEL_INCARNATION = f"{PREFIX}/incarnation"
LABEL_FORMATION = f"{PREFIX}/formation"

FORMATION_KEYS = "formation."
"""What the properties begin with that let the founder format its directory."""

FORMATION_OPTIONS = frozenset({"--restore-from", "--restore-cluster-id"})
"""Options of the founder's process that go with them; each has a value."""

ANNOTATION_UUID = f"{PREFIX}/replica-uuid"
ANNOTATION_FAILED = f"{PREFIX}/failed"
ANNOTATION_TAKEN_BACK = f"{PREFIX}/taken-back"
ANNOTATION_STOPPED = f"{PREFIX}/stopped"
ANNOTATION_RECOVERY = f"{PREFIX}/recovery"
ANNOTATION_REPLACES = f"{PREFIX}/replaces"
ANNOTATION_STORAGE = f"{PREFIX}/storage"
ANNOTATION_TEMPLATE = f"{PREFIX}/template-hash"
ANNOTATION_RESTART = f"{PREFIX}/restart-hash"
ANNOTATION_FORMED = f"{PREFIX}/formed"
ANNOTATION_RESTARTING = f"{PREFIX}/restarting"
ANNOTATION_CLUSTER_ID = f"{PREFIX}/cluster-id"
ANNOTATION_RESOURCE_UID = f"{PREFIX}/resource-uid"
ANNOTATION_FORMATION = f"{PREFIX}/formation"
ANNOTATION_REBUILT = f"{PREFIX}/rebuilt"
ANNOTATION_FENCED = f"{PREFIX}/fenced"
ANNOTATION_REMOVED = f"{PREFIX}/removed"
ANNOTATION_CONTENT = f"{PREFIX}/content-hash"
ANNOTATION_NETWORK_POLICY = f"{PREFIX}/network-policy"
"""On claims: their quorum was formed with a NetworkPolicy. It tells that where the identity is gone."""
ANNOTATION_TLS = f"{PREFIX}/tls"
"""On claims: their quorum was formed with certificates. It tells that where the identity is gone."""
ANNOTATION_CERTIFICATES = f"{PREFIX}/certificates"
"""On pods: version of the Secret with their certificate. The change makes the kubelet look at the Secret at once."""
ANNOTATION_TLS_STAGE = f"{PREFIX}/tls-stage"
"""On an identity that was formed in clear text: how far its quorum is on the way to TLS."""
ANNOTATION_UPDATE = f"{PREFIX}/update"
"""On an identity: what all members have run together, and how far the update from it is."""
ANNOTATION_ROTATE = f"{PREFIX}/rotate-ca"
"""On a MetadataQuorum: the generation of the authority that is wanted at least."""
ANNOTATION_BROKERS_TRUST = f"{PREFIX}/brokers-trust"
"""On a MetadataQuorum: a person says that all brokers trust the authority of this generation."""
ANNOTATION_BROKERS_RENEWED = f"{PREFIX}/brokers-renewed"
"""On a MetadataQuorum: a person says that all brokers present certificates of this authority, or a later one."""

ASKED_BY_NOTE = (ANNOTATION_ROTATE, ANNOTATION_BROKERS_TRUST, ANNOTATION_BROKERS_RENEWED)

CONTROLLER_PORT = 9093
ADMIN_PORT = 8080
SECURE_ADMIN_PORT = 8443
"""The admin API of a quorum with certificates; ADMIN_PORT then serves probes and metrics alone."""

DATA_PATH = "/var/lib/metadataquorum"
LATCH_PATH = "/run/metadataquorum"
CONFIG_PATH = "/etc/metadataquorum"
TOKEN_PATH = "/etc/metadataquorum-token"
TLS_PATH = "/etc/metadataquorum-tls"
REVOKED_FILE = "revoked"
"""In it, where the spec revokes certificates: a key of the member's Secret."""
RESTORE_PATH = "/var/lib/metadataquorum-restore"
CONFIG_FILE = "node.properties"
TOKEN_KEY = "token"

USER_ID = 65532

_NUMBER = re.compile("[1-9][0-9]{0,8}")
_MEMBER = re.compile("([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_POD = re.compile("([1-9][0-9]{0,8})-([1-9][0-9]{0,8})-0")


@dataclass(frozen=True, slots=True)
class Owner:
    """The MetadataQuorum that all objects belong to."""

    name: str
    namespace: str
    uid: str
    operator_namespace: str = ""
    """Where the operator's own pods are; empty: not known, or outside of the cluster."""

    def reference(self) -> dict[str, object]:
        """Owner reference: deleting the resource deletes its objects, without any finalizer."""
        return {
            "apiVersion": f"{PREFIX}/v1alpha1",
            "kind": "MetadataQuorum",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything that belongs to this quorum."""
        return {LABEL_NAME: APP, LABEL_INSTANCE: self.name, LABEL_MANAGED_BY: MANAGER}

    @property
    def selector(self) -> str:
        """Label selector of this quorum's pods, as `kubectl -l` takes it."""
        return f"{LABEL_NAME}={APP},{LABEL_INSTANCE}={self.name}"

    @property
    def claim_selector(self) -> str:
        """Label selector of this quorum's claims; those of the version before have `selector`."""
        return f"{LABEL_NAME}={APP},{LABEL_QUORUM}={self.name}"

    @property
    def nodes_service(self) -> str:
        """Headless service: one DNS name per pod, ready or not."""
        return f"{self.name}-nodes"

    @property
    def admin_service(self) -> str:
        """Admin API of any ready pod."""
        return f"{self.name}-admin"

    @property
    def bootstrap_service(self) -> str:
        """Kafka protocol of any ready pod."""
        return f"{self.name}-bootstrap"

    @property
    def network_policy(self) -> str:
        """Who reaches the members."""
        return f"{self.name}-members"

    @property
    def config_map(self) -> str:
        """The common node properties."""
        return f"{self.name}-config"

    @property
    def token_secret(self) -> str:
        """The admin API's token."""
        return f"{self.name}-admin"

    @property
    def backup(self) -> str:
        """The CronJob that writes backups."""
        return f"{self.name}-backup"

    def identity(self, index: int) -> str:
        """The identity object of the `index`-th formation, counted from 1."""
        return f"{self.name}-identity" if index == 1 else f"{self.name}-identity-{index}"

    def member(self, node_id: int, number: int) -> str:
        """The StatefulSet of one incarnation."""
        return f"{self.name}-{node_id}-{number}"

    def pod(self, member: str) -> str:
        """The only pod of a StatefulSet."""
        return f"{member}-0"

    def claim(self, member: str) -> str:
        """The claim of that pod."""
        return f"data-{member}-0"

    def parse_member(self, name: str) -> tuple[int, int] | None:
        """Node id and incarnation that the name of a StatefulSet says, if it is one of this quorum's."""
        return self._parse(_MEMBER, name)

    def parse_pod(self, name: str) -> tuple[int, int] | None:
        """The same of a pod's name."""
        return self._parse(_POD, name)

    def parse_claim(self, name: str) -> tuple[int, int] | None:
        """The same of a claim's name."""
        prefix = "data-"
        return self._parse(_POD, name.removeprefix(prefix)) if name.startswith(prefix) else None

    def parse_identity(self, name: str) -> int | None:
        """Which formation an identity object is of, by its name."""
        first = self.identity(1)
        if name == first:
            return 1
        index = name.removeprefix(f"{first}-") if name.startswith(f"{first}-") else ""
        return int(index) if _NUMBER.fullmatch(index) and index != "1" else None

    def _parse(self, pattern: re.Pattern[str], name: str) -> tuple[int, int] | None:
        """One quorum's name may begin with another's: what follows must be the numbers, and nothing else."""
        prefix = f"{self.name}-"
        found = pattern.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        return (int(found[1]), int(found[2])) if found is not None else None

    def host(self, member: str) -> str:
        """DNS name of a member's only pod."""
        return f"{member}-0.{self.nodes_service}.{self.namespace}.svc"

    @property
    def bootstrap_servers(self) -> str:
        """Where a node without voters finds some: ready pods first, then any pod."""
        return (
            f"{self.bootstrap_service}.{self.namespace}.svc:{CONTROLLER_PORT},"
            f"{self.nodes_service}.{self.namespace}.svc:{CONTROLLER_PORT}"
        )


def asked_by_notes(meta: Mapping[str, Any]) -> tuple[str | None, ...]:
    """What people ask for by annotations of a MetadataQuorum; `meta`: its metadata."""
    notes = meta.get("annotations") or {}
    return tuple(notes.get(name) for name in ASKED_BY_NOTE)


def metadata(owner: Owner, name: str) -> dict[str, object]:
    """Object metadata with labels and owner."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": owner.labels,
        "ownerReferences": [owner.reference()],
    }
