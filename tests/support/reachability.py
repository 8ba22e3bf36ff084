"""The pods around a quorum, and which of them reach which port under given network policies."""

from collections.abc import Iterable, Mapping
from typing import Any

from quorum_operator.planner.tls_stage import TlsStage
from support.packet_filter import Packet, Pod, derive

CONTROLLER, ADMIN, SECURE_ADMIN, OTHER = 9093, 8080, 8443, 22
"""ADMIN: the admin API in clear text, and metrics; SECURE_ADMIN: the admin API with TLS."""
HOST = "172.16.0.1"
OUTSIDE = "203.0.113.9"
OPERATOR_SPACE = "metadataquorum-system"

Json = dict[str, Any]


def namespaces(*names: str) -> dict[str, Mapping[str, str]]:
    """With the label that the API server gives every namespace."""
    return {name: {"kubernetes.io/metadata.name": name} for name in names}


def around(space: str, quorum: str, members: Iterable[Mapping[str, str]]) -> list[Pod]:
    """Two or more members, given by their labels, and every kind of pod whose access is tested."""
    broker = {"metadataquorum.dev/quorum": quorum, "metadataquorum.dev/role": "broker"}
    operator = {"app.kubernetes.io/name": "metadataquorum-operator"}
    others: list[tuple[str, str, Mapping[str, str]]] = [
        ("operator", OPERATOR_SPACE, operator),
        ("pod that calls itself operator", space, operator),
        ("broker", space, broker),
        ("client", space, {**broker, "metadataquorum.dev/role": "client"}),
        ("broker of another namespace", "elsewhere", broker),
        ("broker of another quorum", space, {**broker, "metadataquorum.dev/quorum": "other"}),
        ("pod with another role", space, {**broker, "metadataquorum.dev/role": "reader"}),
        ("member of another quorum", space, _member("other")),
        ("member of a namesake", "elsewhere", _member(quorum)),
        ("scraper", "monitoring", {"app": "prometheus"}),
        ("stranger", space, {"app": "web"}),
        ("stranger elsewhere", "elsewhere", {}),
    ]
    found = [
        Pod(f"member {number}", space, f"10.0.1.{number}", labels, host=HOST)
        for number, labels in enumerate(members, 1)
    ]
    found += [
        Pod(name, where, f"10.0.2.{number}", labels)
        for number, (name, where, labels) in enumerate(others, 1)
    ]
    return found


def _member(quorum: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "metadataquorum", "app.kubernetes.io/instance": quorum}


def reaches(policies: Iterable[Json], space: str, pods: list[Pod]) -> dict[str, set[int]]:
    """Which sources reach which ports of member 1: the pods, its host (the kubelet), and an address outside of the cluster."""
    known = namespaces(space, "elsewhere", "monitoring", OPERATOR_SPACE)
    derived = derive(policies, pods, known)
    (member,) = (pod for pod in pods if pod.name == "member 1")
    asking = {pod.name: pod.address for pod in pods if pod is not member}
    asking |= {"its host": HOST, "outside": OUTSIDE}
    return {
        name: {
            port
            for port in sorted(EVERYTHING)
            if derived.passes(Packet(address, member.address, port))
        }
        for name, address in asking.items()
    }


def reached(policies: Iterable[Json], space: str, pods: list[Pod]) -> dict[str, set[int]]:
    """Which targets member 1 reaches, on which ports; `dns` stands for a pod that resolves names."""
    known = namespaces(space, "elsewhere", "monitoring", OPERATOR_SPACE, "kube-system")
    dns = Pod("dns", "kube-system", "10.0.3.1")
    derived = derive(policies, [*pods, dns], known)
    (member,) = (pod for pod in pods if pod.name == "member 1")
    requested = {pod.name: pod.address for pod in (*pods, dns) if pod is not member}
    requested["outside"] = OUTSIDE
    return {
        name: {
            port
            for port in (*DNS, CONTROLLER, ADMIN, SECURE_ADMIN, 443)
            if derived.passes(Packet(member.address, address, port))
        }
        for name, address in requested.items()
    }


DNS = {53, 5353}
"""The ports of name servers: 5353 on OpenShift."""
EVERYTHING = {CONTROLLER, ADMIN, SECURE_ADMIN, OTHER}
ADMIN_AT: Mapping[TlsStage, frozenset[int]] = {
    TlsStage.PLAIN: frozenset({ADMIN}),
    TlsStage.ACCEPTING: frozenset({ADMIN, SECURE_ADMIN}),
    TlsStage.DIALLING: frozenset({ADMIN, SECURE_ADMIN}),
    TlsStage.CLOSED: frozenset({SECURE_ADMIN}),
}
"""The ports of the admin API: both are open while members are rolled from one to the other."""


def by_default(stage: TlsStage) -> dict[str, set[int]]:
    """The sources that reach the ports of a member with the default spec."""
    admin = set(ADMIN_AT[stage])
    return {
        "member 2": {CONTROLLER, *admin},
        "operator": admin,
        "pod that calls itself operator": set(),
        "broker": {CONTROLLER},
        "client": {CONTROLLER},
        "broker of another namespace": set(),
        "broker of another quorum": set(),
        "pod with another role": set(),
        "member of another quorum": set(),
        "member of a namesake": set(),
        "scraper": set(),
        "stranger": set(),
        "stranger elsewhere": set(),
        "its host": EVERYTHING,
        "outside": set(),
    }


BY_DEFAULT = by_default(TlsStage.PLAIN)
"""Of a quorum in clear text."""
