"""Names, labels, annotations, ports and paths: where the operator's objects are found again."""

from dataclasses import dataclass

APP = "metadataquorum"
MANAGER = "metadataquorum-operator"
PREFIX = "metadataquorum.dev"

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_NODE_ID = f"{PREFIX}/node-id"
LABEL_INCARNATION = f"{PREFIX}/incarnation"
LABEL_FORMATION = f"{PREFIX}/formation"

ANNOTATION_UUID = f"{PREFIX}/replica-uuid"
ANNOTATION_FAILED = f"{PREFIX}/failed"
ANNOTATION_STOPPED = f"{PREFIX}/stopped"
ANNOTATION_RECOVERY = f"{PREFIX}/recovery"
ANNOTATION_REPLACES = f"{PREFIX}/replaces"
ANNOTATION_STORAGE = f"{PREFIX}/storage"
ANNOTATION_TEMPLATE = f"{PREFIX}/template-hash"
ANNOTATION_RESTART = f"{PREFIX}/restart-hash"
ANNOTATION_FORMED = f"{PREFIX}/formed"
ANNOTATION_RESTARTING = f"{PREFIX}/restarting"
ANNOTATION_CONTENT = f"{PREFIX}/content-hash"

CONTROLLER_PORT = 9093
ADMIN_PORT = 8080

DATA_PATH = "/var/lib/metadataquorum"
LATCH_PATH = "/run/metadataquorum"
CONFIG_PATH = "/etc/metadataquorum"
TOKEN_PATH = "/etc/metadataquorum-token"
CONFIG_FILE = "node.properties"
TOKEN_KEY = "token"

USER_ID = 65532


@dataclass(frozen=True, slots=True)
class Owner:
    """The MetadataQuorum that all objects belong to."""

    name: str
    namespace: str
    uid: str

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
    def config_map(self) -> str:
        """The common node properties."""
        return f"{self.name}-config"

    @property
    def token_secret(self) -> str:
        """The admin API's token."""
        return f"{self.name}-admin"

    def identity(self, index: int) -> str:
        """The identity object of the `index`-th formation, counted from 1."""
        return f"{self.name}-identity" if index == 1 else f"{self.name}-identity-{index}"

    def member(self, node_id: int, number: int) -> str:
        """The StatefulSet of one incarnation."""
        return f"{self.name}-{node_id}-{number}"

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


def metadata(owner: Owner, name: str) -> dict[str, object]:
    """Object metadata with labels and owner."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": owner.labels,
        "ownerReferences": [owner.reference()],
    }
