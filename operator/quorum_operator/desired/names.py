"""Names, labels, annotations, ports and paths of the operator's objects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

APP = "metadataquorum"
OPERATOR_APP = "metadataquorum-operator"
"""Value of LABEL_NAME of the operator's own pods."""
MANAGER = "metadataquorum-operator"
PREFIX = "metadataquorum.dev"

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_QUORUM = f"{PREFIX}/quorum"
"""Name of the quorum, used by selectors of StatefulSets. LABEL_INSTANCE is not used there, because Argo CD prunes
claims with it.
"""
LABEL_ROLE = f"{PREFIX}/role"
"""On other pods: broker or client of the quorum in LABEL_QUORUM."""
LABEL_BACKUP = f"{PREFIX}/backup"
"""On Jobs and pods that write backups of the quorum in LABEL_QUORUM."""
LABEL_NODE_ID = f"{PREFIX}/node-id"
LABEL_INCARNATION = f"{PREFIX}/incarnation"
LABEL_FORMATION = f"{PREFIX}/formation"

FORMATION_KEYS = "formation."
"""Prefix of the properties that allow the founder to format its directory."""

FORMATION_OPTIONS = frozenset(
    {
        "--restore-from",
        "--restore-cluster-id",
        "--restore-endpoint",
        "--restore-region",
        "--restore-path-style",
    }
)
"""Further options of a founder's process with these properties; each has a value."""

ANNOTATION_UUID = f"{PREFIX}/replica-uuid"
ANNOTATION_FAILED = f"{PREFIX}/failed"
ANNOTATION_TAKEN_BACK = f"{PREFIX}/taken-back"
ANNOTATION_STOPPED = f"{PREFIX}/stopped"
ANNOTATION_RECOVERY = f"{PREFIX}/recovery"
ANNOTATION_REPLACES = f"{PREFIX}/replaces"
ANNOTATION_PREDECESSOR = f"{PREFIX}/predecessor"
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
"""On claims: the quorum was formed with a NetworkPolicy. Used if the identity was deleted."""
ANNOTATION_DEFAULTS = f"{PREFIX}/defaults"
"""On claims: the defaults that the quorum was formed with, in JSON. Used if the identity was deleted."""
ANNOTATION_TLS = f"{PREFIX}/tls"
"""On claims: the replica speaks TLS only. Used if the identity was deleted, and when claims are adopted."""
ANNOTATION_CERTIFICATES = f"{PREFIX}/certificates"
"""On pods: version of the Secret with their certificate. A change makes the kubelet update the mounted Secret at
once.
"""
ANNOTATION_TLS_STAGE = f"{PREFIX}/tls-stage"
"""On an identity that was formed in clear text: the stage of the TLS migration."""
ANNOTATION_UPDATE = f"{PREFIX}/update"
"""On an identity: the revision that all members have run, and the state of the update from it."""
ANNOTATION_ROTATE = f"{PREFIX}/rotate-ca"
"""On a MetadataQuorum: the minimum generation of the authority that the user requests."""
ANNOTATION_BROKERS_TRUST = f"{PREFIX}/brokers-trust"
"""On a MetadataQuorum: the user confirms that all brokers trust the authority of this generation."""
ANNOTATION_BROKERS_RENEWED = f"{PREFIX}/brokers-renewed"
"""On a MetadataQuorum: the user confirms that all brokers use certificates of this or a later authority."""

REQUEST_ANNOTATIONS = (ANNOTATION_ROTATE, ANNOTATION_BROKERS_TRUST, ANNOTATION_BROKERS_RENEWED)

RETENTION_FIELD = "spec.persistentVolumeClaimRetentionPolicy"
"""Path of the field of a StatefulSet that decides what happens to its claim."""

CONTAINER = "node"
"""Name of a member's container. Its pod may have others, which an admission webhook has injected."""

CONTROLLER_PORT = 9093
ADMIN_PORT = 8080
SECURE_ADMIN_PORT = 8443
"""Port of the admin API of a quorum with certificates; ADMIN_PORT then serves only probes and metrics."""

DATA_PATH = "/var/lib/metadataquorum"
LATCH_PATH = "/run/metadataquorum"
CONFIG_PATH = "/etc/metadataquorum"
TOKEN_PATH = "/etc/metadataquorum-token"
TLS_PATH = "/etc/metadataquorum-tls"
REVOKED_FILE = "revoked"
"""File in TLS_PATH, a key of the member's Secret: the revoked certificates, if the spec has any."""
RESTORE_PATH = "/var/lib/metadataquorum-restore"
STORE_CA_PATH = "/etc/metadataquorum-store-ca"
"""Mount path of the CA certificates of an object store."""
CONFIG_FILE = "node.properties"
TOKEN_KEY = "token"
TOKEN_FILE = f"{TOKEN_PATH}/{TOKEN_KEY}"

USER_ID = 65532

MOST_COUNTED = 900_000_000
"""Highest incarnation number that others are counted from. A higher one is in a name that somebody else has chosen;
numbers after it would have more digits than the names of members allow.
"""

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
    """Namespace of the operator's pods; empty if unknown or outside of the cluster."""

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
        """Label selector of this quorum's claims; claims of the previous version have the labels of `selector`."""
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
        """The NetworkPolicy of the members."""
        return f"{self.name}-members"

    @property
    def config_map(self) -> str:
        """The ConfigMap with the shared node properties."""
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
        """Node id and incarnation in the name of a StatefulSet of this quorum, else None."""
        return self._parse(_MEMBER, name)

    def parse_pod(self, name: str) -> tuple[int, int] | None:
        """The same for the name of a pod."""
        return self._parse(_POD, name)

    def parse_claim(self, name: str) -> tuple[int, int] | None:
        """The same for the name of a claim."""
        prefix = "data-"
        return self._parse(_POD, name.removeprefix(prefix)) if name.startswith(prefix) else None

    def parse_identity(self, name: str) -> int | None:
        """The formation number in the name of an identity object."""
        first = self.identity(1)
        if name == first:
            return 1
        index = name.removeprefix(f"{first}-") if name.startswith(f"{first}-") else ""
        return int(index) if _NUMBER.fullmatch(index) and index != "1" else None

    def _parse(self, pattern: re.Pattern[str], name: str) -> tuple[int, int] | None:
        """Parse strictly, because the name of one quorum may be a prefix of another's."""
        prefix = f"{self.name}-"
        found = pattern.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        return (int(found[1]), int(found[2])) if found is not None else None

    def host(self, member: str) -> str:
        """DNS name of a member's only pod."""
        return f"{member}-0.{self.nodes_service}.{self.namespace}.svc"

    @property
    def bootstrap_servers(self) -> str:
        """Bootstrap servers: ready pods first, then any pod."""
        return (
            f"{self.bootstrap_service}.{self.namespace}.svc:{CONTROLLER_PORT},"
            f"{self.nodes_service}.{self.namespace}.svc:{CONTROLLER_PORT}"
        )


def annotated_requests(meta: Mapping[str, Any]) -> tuple[str | None, ...]:
    """User requests in annotations of a MetadataQuorum; `meta`: its metadata."""
    notes = meta.get("annotations") or {}
    return tuple(notes.get(name) for name in REQUEST_ANNOTATIONS)


def metadata(owner: Owner, name: str) -> dict[str, object]:
    """Object metadata with labels and owner."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": owner.labels,
        "ownerReferences": [owner.reference()],
    }
