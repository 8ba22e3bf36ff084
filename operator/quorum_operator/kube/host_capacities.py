"""The Nodes on which members can be scheduled if each member needs a Node of its own.

Owns the reads and those of the scheduler's rules that depend only on the Node: readiness, taints, labels. All other
rules (free CPU, affinity of other pods) count as met. One Node too many leaves a member unschedulable, which is
reported; one too few would delay a move for no reason.
"""

import json
from collections.abc import Callable
from typing import Any

from quorum_operator.crd import MetadataQuorumSpec, Spread
from quorum_operator.kube import paths
from quorum_operator.kube.errors import ApiError
from quorum_operator.kube.finding import Reads
from quorum_operator.kube.hosts import is_ready
from quorum_operator.kube.volumes import HOSTNAME
from quorum_operator.planner.host_capacity import HostCapacity

Object = dict[str, Any]

MOST_RULES = 500
MOST_CHARS = 200_000
"""Rules of a spec that are compared with every Node of the cluster, by number and by size in JSON. The fields have no
limit of their own, and the operator does nothing else meanwhile. If there are more, all of them count as met.
"""

_KEEP_OUT = ("NoSchedule", "NoExecute")
_OF_READINESS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that follow the condition Ready with a delay. They are ignored, because the condition itself is checked."""
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


async def read_host_capacities(
    api: Reads, spec: MetadataQuorumSpec
) -> tuple[HostCapacity, ...] | None:
    """All usable Nodes, occupied or not; None if members may share hosts or the Nodes can't be read."""
    if spec.spread is not Spread.REQUIRED:
        return None
    try:
        nodes = await api.find(paths.NODES)
    except ApiError:
        return None
    if _has_many_rules(spec):
        every = {"tolerations": [{"operator": "Exists"}], "affinity": None, "node_selector": None}
        spec = spec.model_copy(update=every)
    return tuple(_capacity(each) for each in nodes if takes(each, spec))


def _has_many_rules(spec: MetadataQuorumSpec) -> bool:
    text = json.dumps([spec.tolerations, spec.affinity, spec.node_selector])
    return len(text) > MOST_CHARS or text.count("{") > MOST_RULES


def takes(node: Object, spec: MetadataQuorumSpec) -> bool:
    """Whether the scheduler would place a member's pod there, by the rules that depend only on the Node."""
    labels, node_spec = node["metadata"].get("labels") or {}, node.get("spec") or {}
    if "deletionTimestamp" in node["metadata"] or not is_ready(node):
        return False
    taints = [
        *(node_spec.get("taints") or []),
        *([_CORDONED] if node_spec.get("unschedulable") else []),
    ]
    if not all(_is_tolerated(each, spec.tolerations or []) for each in taints):
        return False
    if not (spec.node_selector or {}).items() <= labels.items():
        return False
    try:
        return _is_chosen(node["metadata"]["name"], labels, spec.affinity or {})
    except (AttributeError, IndexError, TypeError):
        return True  # spec.affinity is invalid: the API server rejects a template with it.


def _capacity(node: Object) -> HostCapacity:
    name = node["metadata"]["name"]
    return HostCapacity(name, (node["metadata"].get("labels") or {}).get(HOSTNAME, name))


def _is_tolerated(taint: Object, tolerations: list[Object]) -> bool:
    if taint.get("effect") not in _KEEP_OUT or taint.get("key") in _OF_READINESS:
        return True
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key"):
        return operator == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    # Newer operators compare numbers: they count as met.
    return operator != "Equal" or toleration.get("value", "") == taint.get("value", "")


def _is_chosen(name: str, labels: dict[str, str], affinity: Object) -> bool:
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_matches(name, labels, term) for term in required.get("nodeSelectorTerms") or [])


def _matches(name: str, labels: dict[str, str], term: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False  # An empty term matches nothing.
    of_name = {"metadata.name": name}
    by_labels = all(_holds(each, labels) for each in expressions)
    return by_labels and all(_holds(each, of_name) for each in fields)


_OPERATORS: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _number(value) > _number(values[0]),
    "Lt": lambda value, values: value is not None and _number(value) < _number(values[0]),
}


def _number(text: str | None) -> float:
    try:
        return float(text) if text is not None else float("-inf")
    except ValueError:
        return float("nan")


def _holds(expression: Object, labels: dict[str, str]) -> bool:
    rule = _OPERATORS.get(expression.get("operator", ""))
    return rule is None or rule(
        labels.get(expression.get("key", "")), expression.get("values") or []
    )
