"""The single-replica StatefulSet of one incarnation of a member.

Owns the pod: unprivileged, read-only root, fast probes, spread over hosts. Properties of only this member (id, names,
the founder's permission) are arguments; shared properties are in the ConfigMap. `hashes` shows whether a template,
and whether a running pod, is out of date.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from quorum_node.survivor import Survivor
from quorum_operator.crd import DeletionPolicy, MetadataQuorumSpec, Spread
from quorum_operator.desired import backup, config, pod_template, revision, tls
from quorum_operator.desired.formation_defaults import with_defaults
from quorum_operator.desired.names import (
    ADMIN_PORT,
    ANNOTATION_CLUSTER_ID,
    ANNOTATION_DEFAULTS,
    ANNOTATION_FORMATION,
    ANNOTATION_NETWORK_POLICY,
    ANNOTATION_PREDECESSOR,
    ANNOTATION_REBUILT,
    ANNOTATION_RECOVERY,
    ANNOTATION_REPLACES,
    ANNOTATION_RESOURCE_UID,
    ANNOTATION_RESTART,
    ANNOTATION_STORAGE,
    ANNOTATION_TEMPLATE,
    ANNOTATION_TLS,
    ANNOTATION_UUID,
    CONFIG_FILE,
    CONFIG_PATH,
    CONTAINER,
    CONTROLLER_PORT,
    DATA_PATH,
    LABEL_FORMATION,
    LABEL_INCARNATION,
    LABEL_INSTANCE,
    LABEL_NAME,
    LABEL_NODE_ID,
    LABEL_QUORUM,
    LATCH_PATH,
    TOKEN_PATH,
    Owner,
    metadata,
)
from quorum_operator.planner.formation_defaults import defaults_text
from quorum_operator.planner.object_facts import Templates
from quorum_operator.planner.observed import Identity, Incarnation, StorageChoice
from quorum_operator.planner.tls_stage import TlsStage

_HOST_TOPOLOGY = "kubernetes.io/hostname"
_MORE_HOSTS_THAN_THERE_ARE = 1_000_000
_HEALTH = {"name": "health", "containerPort": ADMIN_PORT, "protocol": "TCP"}
"""Listener for probes and metrics without certificates, because a kubelet presents none."""


@dataclass(frozen=True, slots=True)
class Member:
    """Which incarnation of which member, in which formation."""

    node_id: int
    number: int
    identity: Identity
    founder: bool = False
    replaces: int | None = None
    predecessor: str | None = None
    """StatefulSet of the member whose place it takes."""
    recovery: Survivor | None = None
    """Its node becomes the sole voter of a lost quorum, once."""
    replica_uuid: str | None = None
    """UUID of an existing replica, on a claim whose StatefulSet is recreated."""
    storage: StorageChoice | None = None
    """The storage that the claim was created with."""
    recovery_note: str | None = None

    @property
    def may_format(self) -> bool:
        """The founder's permission to format; withdrawn once the quorum has formed."""
        return self.founder and not self.identity.formed


def founder_or_member(each: Incarnation, identity: Identity) -> Member:
    """The builder's input for an existing incarnation: the founder has the founder's UUID."""
    founder = each.node_id == identity.founder_id and each.uuid == identity.founder_uuid
    recovery = None if each.recovery_given_up else each.recovery
    return Member(
        each.node_id, each.number, identity, founder, each.replaces, each.predecessor, recovery
    )


def build(owner: Owner, spec: MetadataQuorumSpec, member: Member) -> dict[str, Any]:
    """The whole StatefulSet."""
    spec, is_candidate = _run_by(owner, spec, member)
    meta = metadata(owner, owner.member(member.node_id, member.number))
    meta["labels"] = labels(owner, member.node_id, member.number, member.identity.index)
    annotations = {
        ANNOTATION_STORAGE: storage_text(_storage(spec, member)),
        ANNOTATION_TEMPLATE: _template_hash(owner, spec, member, is_candidate),
    }
    if member.founder:
        annotations[ANNOTATION_UUID] = member.identity.founder_uuid
    if member.replica_uuid is not None:
        annotations[ANNOTATION_UUID] = member.replica_uuid
        annotations[ANNOTATION_REBUILT] = "true"
    if member.recovery_note is not None:
        annotations[ANNOTATION_RECOVERY] = member.recovery_note
    if member.replaces is not None:
        annotations[ANNOTATION_REPLACES] = str(member.replaces)
    if member.predecessor is not None:
        annotations[ANNOTATION_PREDECESSOR] = member.predecessor
    meta["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {
            "replicas": 1,
            "serviceName": owner.nodes_service,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": _selector(owner, member.node_id, member.number)},
            "persistentVolumeClaimRetentionPolicy": retention(spec),
            "template": build_template(owner, spec, member, is_candidate=is_candidate),
            "volumeClaimTemplates": [_claim(owner, spec, member)],
        },
    }


def retention(spec: MetadataQuorumSpec) -> dict[str, str]:
    """PVC retention: scaling to zero keeps the claim; deletion follows spec.deletionPolicy."""
    delete = spec.deletion_policy is DeletionPolicy.DELETE
    return {"whenDeleted": "Delete" if delete else "Retain", "whenScaled": "Retain"}


def hashes(owner: Owner, spec: MetadataQuorumSpec, member: Member) -> Templates:
    """Hashes that an up-to-date template is annotated with."""
    spec, is_candidate = _run_by(owner, spec, member)
    template = _template_hash(owner, spec, member, is_candidate)
    return Templates(template, _restart_hash(owner, spec, member))


def _run_by(
    owner: Owner, spec: MetadataQuorumSpec, member: Member
) -> tuple[MetadataQuorumSpec, bool]:
    """The spec that a member runs, with the defaults of its formation, and whether it runs it before the others. That is
    decided without the defaults, which are not part of a revision.
    """
    name = owner.member(member.node_id, member.number)
    given = revision.for_member(spec, member.identity, name)
    is_candidate = revision.is_candidate(given, member.identity, name)
    return with_defaults(given, member.identity), is_candidate


def storage_text(storage: StorageChoice) -> str:
    """The storage of the claim as annotation text."""
    return json.dumps({"size": storage.size, "storageClass": storage.storage_class})


def _storage(spec: MetadataQuorumSpec, member: Member) -> StorageChoice:
    return member.storage or StorageChoice(spec.storage.size, spec.storage.storage_class_name)


def _digest(document: object) -> str:
    text = json.dumps(document, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _template_hash(
    owner: Owner, spec: MetadataQuorumSpec, member: Member, is_candidate: bool
) -> str:
    """Hash of everything that may change on an existing StatefulSet."""
    template = build_template(owner, spec, member, is_candidate=is_candidate)
    return _digest([template, retention(spec)])


def _restart_hash(owner: Owner, spec: MetadataQuorumSpec, member: Member) -> str:
    """Hash of everything for which a running pod is restarted: image, resources, properties, a recovery."""
    stage = member.identity.tls_stage
    secured, revoking = stage is TlsStage.CLOSED, tls.revokes(spec)
    common = config.properties(owner, spec.config or {}, secured=secured, revoking=revoking)
    parts = [spec.image, revision.resources(spec), common, *pod_template.restarts(spec)]
    parts += [stage.value] if stage.takes_both else []
    return _digest([*parts, str(member.recovery)] if member.recovery is not None else parts)


def _selector(owner: Owner, node_id: int, number: int) -> dict[str, str]:
    # Kubernetes copies these labels to the claim, which must not have LABEL_INSTANCE.
    shared = {LABEL_NAME: owner.labels[LABEL_NAME], LABEL_QUORUM: owner.name}
    own = {LABEL_NODE_ID: str(node_id), LABEL_INCARNATION: str(number)}
    return {**shared, **own}


def labels(owner: Owner, node_id: int, number: int, formation: int) -> dict[str, str]:
    """Labels of an incarnation's StatefulSet and of its pod."""
    own = {LABEL_FORMATION: str(formation)}
    return {**owner.labels, **_selector(owner, node_id, number), **own}


def claim_labels(owner: Owner, node_id: int, number: int, formation: int) -> dict[str, str]:
    """Labels of its claim. The claim has no owner, so it must not have labels by which tools prune objects."""
    shared = labels(owner, node_id, number, formation)
    return {key: value for key, value in shared.items() if key != LABEL_INSTANCE}


def _claim(owner: Owner, spec: MetadataQuorumSpec, member: Member) -> dict[str, Any]:
    storage = _storage(spec, member)
    claim: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.size}},
    }
    if storage.storage_class is not None:
        claim["storageClassName"] = storage.storage_class
    # Set when the claim is created, so that its owner is known from the start.
    notes = {
        ANNOTATION_RESOURCE_UID: owner.uid,
        ANNOTATION_CLUSTER_ID: member.identity.cluster_id,
        ANNOTATION_FORMATION: str(member.identity.index),
        ANNOTATION_STORAGE: storage_text(storage),
    }
    if member.identity.network_policy:
        notes[ANNOTATION_NETWORK_POLICY] = "true"
    if member.identity.defaults:
        notes[ANNOTATION_DEFAULTS] = defaults_text(member.identity.defaults)
    if member.identity.tls_stage is TlsStage.CLOSED:
        notes[ANNOTATION_TLS] = "true"
    if member.may_format and member.replica_uuid is None:
        notes[ANNOTATION_UUID] = member.identity.founder_uuid
    marks = claim_labels(owner, member.node_id, member.number, member.identity.index)
    return {"metadata": {"name": "data", "labels": marks, "annotations": notes}, "spec": claim}


def build_template(
    owner: Owner, spec: MetadataQuorumSpec, member: Member, *, is_candidate: bool = False
) -> dict[str, Any]:
    """The pod template. `is_candidate`: of a canary, which runs the new configuration before the others."""
    secured = member.identity.tls_stage is not TlsStage.PLAIN
    pod: dict[str, Any] = {
        **pod_template.of_pod(spec),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
        "containers": [_container(owner, spec, member)],
        "volumes": [
            _config_volume(owner, is_candidate),
            {"name": "token", "secret": {"secretName": owner.token_secret, "defaultMode": 0o440}},
            {"name": "latch", "emptyDir": {"sizeLimit": "1Mi"}},
            *([tls.volume(owner.member(member.node_id, member.number))] if secured else []),
            *(backup.restore_volume(spec) if member.may_format else []),
        ],
        **_placement(owner, spec, member),
    }
    return {
        "metadata": pod_template.with_metadata(
            spec,
            labels(owner, member.node_id, member.number, member.identity.index),
            {ANNOTATION_RESTART: _restart_hash(owner, spec, member)},
        ),
        "spec": pod,
    }


def _config_volume(owner: Owner, is_candidate: bool) -> dict[str, Any]:
    """The volume with the configuration; for a canary it contains the new configuration under the same name."""
    source: dict[str, Any] = {"name": owner.config_map}
    if is_candidate:
        source["items"] = [{"key": revision.CANDIDATE_FILE, "path": CONFIG_FILE}]
    return {"name": "config", "configMap": source}


def _placement(owner: Owner, spec: MetadataQuorumSpec, member: Member) -> dict[str, Any]:
    placement: dict[str, Any] = {}
    selector = {"matchLabels": {key: owner.labels[key] for key in (LABEL_NAME, LABEL_INSTANCE)}}
    former = owner.pod(member.predecessor) if member.predecessor is not None else None
    spread = pod_template.zones(spec, selector, former)
    if spec.spread is not Spread.NONE:
        # With Preferred a new member must always be able to start: the failed member's host may be
        # gone.
        required = spec.spread is Spread.REQUIRED
        hosts: dict[str, Any] = {
            "maxSkew": 1,
            "topologyKey": _HOST_TOPOLOGY,
            "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
            "labelSelector": selector,
        }
        if required:
            # Never two members on a host. With fewer domains than this number, Kubernetes treats
            # the minimum as zero, so that every occupied host exceeds maxSkew.
            hosts["minDomains"] = _MORE_HOSTS_THAN_THERE_ARE
        spread = [hosts, *spread]
    if spread:
        placement["topologySpreadConstraints"] = spread
    if spec.affinity is not None:
        placement["affinity"] = spec.affinity
    if spec.tolerations is not None:
        placement["tolerations"] = spec.tolerations
    if spec.node_selector is not None:
        placement["nodeSelector"] = spec.node_selector
    return placement


def _container(owner: Owner, spec: MetadataQuorumSpec, member: Member) -> dict[str, Any]:
    arguments = ["--config", f"{CONFIG_PATH}/{CONFIG_FILE}"]
    for key, value in overrides(owner, member).items():
        arguments += ["--override", f"{key}={value}"]
    if member.may_format:
        arguments += backup.restore_arguments(spec)
    if member.recovery is not None:
        arguments += ["--recover", str(member.recovery)]
    secured = member.identity.tls_stage is not TlsStage.PLAIN
    health = "health" if secured else "admin"
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "args": arguments,
        "ports": [
            {"name": "controller", "containerPort": CONTROLLER_PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": tls.admin_port(secured), "protocol": "TCP"},
            *([_HEALTH] if secured else []),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": DATA_PATH},
            {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
            {"name": "token", "mountPath": TOKEN_PATH, "readOnly": True},
            {"name": "latch", "mountPath": LATCH_PATH},
            *([tls.mount()] if secured else []),
            *(backup.restore_mount(spec) if member.may_format else []),
        ],
        "startupProbe": _probe("/livez", health, period=1, failures=60),
        "livenessProbe": _probe("/livez", health, period=5, failures=4),
        "readinessProbe": _probe("/readyz", health, period=1, failures=2),
        **pod_template.of_container(spec),
    }
    if member.may_format and (variables := backup.restore_environment(spec)):
        taken = {each["name"] for each in variables}
        own = [each for each in container.get("env", ()) if each["name"] not in taken]
        container["env"] = [*own, *variables]
    if spec.resources is not None:
        container["resources"] = revision.resources(spec)
    return container


def overrides(owner: Owner, member: Member) -> dict[str, str]:
    """Properties of only this incarnation."""
    identity = member.identity
    host = owner.host(owner.member(member.node_id, member.number))
    stage = identity.tls_stage
    secured = stage is not TlsStage.PLAIN
    scheme, port = tls.admin_scheme(secured), tls.admin_port(secured)
    own = {
        "node.id": str(member.node_id),
        "cluster.id": identity.cluster_id,
        "listeners": f"CONTROLLER://0.0.0.0:{CONTROLLER_PORT}",
        "advertised.listeners": f"CONTROLLER://{host}:{CONTROLLER_PORT}",
        "admin.listener": f"{scheme}://0.0.0.0:{port}",
        "admin.advertised.listener": f"{scheme}://{host}:{port}",
    }
    if not identity.tls:  # settings that all members share may change while this one runs
        own |= tls.properties_at(stage)
    if member.may_format:
        # All other members learn the number of initial voters from the log.
        own["formation.initial.voters"] = str(identity.initial_voters)
        own["formation.founder.id"] = str(identity.founder_id)
        own["formation.founder.uuid"] = identity.founder_uuid
    return own


def _probe(path: str, port: str, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
        "successThreshold": 1,
    }
