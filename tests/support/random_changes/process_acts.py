"""Acts on processes: nodes and the operator, killed, frozen, missing or doubled."""

import contextlib

from support.kind_env import installation, kube
from support.kind_env.testbed import TestbedError
from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.operations import Operations

_PASSES = (3.0, 10.0)


@act()
def kill_9(operations: Operations, drawn: Drawn) -> Doing:
    """Kill the process of a member with SIGKILL."""
    member = operations.member(drawn)
    operations.env.faults.kill_9(member.pod)
    yield f"killed the process of {member.pod}"


@act()
def kill_9_all(operations: Operations, drawn: Drawn) -> Doing:
    """Kill the processes of all members with SIGKILL."""
    killed = []
    for member in operations.members():
        # A member that is just starting has no process yet.
        with contextlib.suppress(TestbedError):
            operations.env.faults.kill_9(member.pod)
            killed.append(member.pod)
    yield f"killed the processes of {killed}"


@act(lasts_s=_PASSES)
def freeze(operations: Operations, drawn: Drawn) -> Doing:
    """Stop the process of a member with SIGSTOP, and let it go on."""
    member = operations.member(drawn)
    operations.env.faults.freeze(member.pod)
    yield f"froze the process of {member.pod}"
    operations.env.faults.thaw(member.pod)


@act()
def kill_operator(operations: Operations, drawn: Drawn) -> Doing:
    """Kill the operator's process with SIGKILL."""
    operations.env.kill_operator()
    yield "killed the operator"


@act()
def delete_operator_pod(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the operator's pod by force."""
    for pod in installation.operator_pods(operations.api):
        path = kube.core(installation.OPERATOR_NAMESPACE, "pods", pod["metadata"]["name"])
        operations.api.delete(path, grace_s=0)
    yield "deleted the operator's pod"


@act(lasts_s=_PASSES)
def operator_away(operations: Operations, drawn: Drawn) -> Doing:
    """Scale the operator to nothing for a while."""
    operations.api.merge(operations.deployment(), {"spec": {"replicas": 0}})
    yield "the operator is scaled to 0"
    operations.api.merge(operations.deployment(), {"spec": {"replicas": 1}})


@act(lasts_s=_PASSES)
def two_operators(operations: Operations, drawn: Drawn) -> Doing:
    """Run two operators for a while."""
    operations.api.merge(operations.deployment(), {"spec": {"replicas": 2}})
    yield "the operator is scaled to 2"
    operations.api.merge(operations.deployment(), {"spec": {"replicas": 1}})


@act(lasts_s=_PASSES)
def operator_forbidden(operations: Operations, drawn: Drawn) -> Doing:
    """Take the operator's permissions away, and give them back."""
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    path = f"{bindings}/{installation.OPERATOR_NAMESPACE}-{installation.RELEASE}"
    found = operations.api.get(path)
    operations.api.delete(path)
    yield "deleted the operator's ClusterRoleBinding"
    kept = ("name", "labels", "annotations")
    found["metadata"] = {key: found["metadata"][key] for key in kept if key in found["metadata"]}
    operations.api.create(bindings, found)


@act()
def delete_lease(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the Lease that the working operator holds."""
    space = installation.OPERATOR_NAMESPACE
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases"
    names = [each["metadata"]["name"] for each in operations.api.list(leases)]
    for name in names:
        operations.api.delete(f"{leases}/{name}")
    yield f"deleted leases {names}"


@act(destroys=1)
def remove_voter(operations: Operations, drawn: Drawn) -> Doing:
    """Take a voter out of the voter set by the admin API."""
    member = operations.member(drawn)
    outcome = operations.admin("DELETE", f"/v1/voters/{member.node_id}/{member.uuid}")
    yield f"removed voter {member.node_id}: {outcome}"


@act()
def resign(operations: Operations, drawn: Drawn) -> Doing:
    """Ask the leader to hand over by the admin API."""
    yield f"asked the leader to resign: {operations.admin('POST', '/v1/resign', {})}"


ACTS: tuple[Act, ...] = (
    kill_9,
    kill_9_all,
    freeze,
    kill_operator,
    delete_operator_pod,
    operator_away,
    two_operators,
    operator_forbidden,
    delete_lease,
    remove_voter,
    resign,
)
