"""The calls of the operator as points at which it can be killed.

Owns the naming of calls: a purpose describes a call without the parts that differ between two runs of the same move
(namespace, generated names, node ids, generations of authorities, replica UUIDs, addresses). The n-th call with one purpose is a point. The number
of status writes, events, checks of the token and updates of the disruption budget depends on timing, so only the first of
each is a point, and a move may do without it.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from support.envtest.http_proxy import Call
from support.envtest.kube_api import Json

_MEMBER = re.compile(r"\bq-\d+-\d+\b")
_AUTHORITY = re.compile(r"\bq-ca-\d+\b")
_ANNOTATIONS = "metadataquorum.dev/"
_TOKEN_CHECK = "node POST node"
"""Asks a node whether it takes the token: it changes nothing, and comes when objects are looked at."""

_BUDGET = "PATCH poddisruptionbudgets/"
"""The budget follows the running pods: a move that is looked at less often changes it fewer times."""


@dataclass(frozen=True, slots=True, order=True)
class KillPoint:
    """The `occurrence`-th call (from 1) of a purpose, counted from the start of the move."""

    purpose: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.purpose} #{self.occurrence}"


def is_about_lease(call: Call) -> bool:
    """Whether it acquires, renews or reads the operators' lease."""
    return not call.target and "/leases" in call.path


def purpose(call: Call) -> str:
    """The purpose of a call."""
    if call.target:
        kind = call.path.split("/")[2]
        return f"node {call.method} {kind}"
    parts = call.path.split("/namespaces/", 1)[-1].split("/")[1:]
    place = "/".join(_without_numbers(part) for part in parts)
    body = _body(call)
    if place == "events":
        return f"event {body.get('reason')}"
    if place.endswith("/status"):
        status = body.get("status", {})
        plan = status.get("plan") or {}
        return f"status {status.get('phase')}, plan {plan.get('step')}"
    return " ".join(part for part in (call.method, place, _content(call, body)) if part)


def _without_numbers(name: str) -> str:
    """A name without the numbers of a member, or of an authority, which every rotation counts on."""
    return _AUTHORITY.sub("q-ca-G", _MEMBER.sub("q-N-I", name))


def depends_on_timing(what: str) -> bool:
    """Whether the number of calls with this purpose differs between two undisturbed moves.

    They report, ask, or follow the number of running pods.
    """
    return what == _TOKEN_CHECK or what.startswith(("status ", "event ", _BUDGET))


def _content(call: Call, body: Json) -> str:
    """The change that a write makes (annotations, replica count), else the object's name."""
    if call.method == "POST":
        return _without_numbers(str(body.get("metadata", {}).get("name", "")))
    changed = [
        key.removeprefix(_ANNOTATIONS)
        for key in body.get("metadata", {}).get("annotations", {})
        if key.startswith(_ANNOTATIONS)
    ]
    replicas = body.get("spec", {}).get("replicas") if isinstance(body.get("spec"), dict) else None
    return " ".join([*sorted(changed), *([] if replicas is None else [f"replicas={replicas}"])])


def _body(call: Call) -> Json:
    try:
        found = json.loads(call.body) if call.body else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {"operations": found}


def points(calls: Iterable[Call]) -> tuple[KillPoint, ...]:
    """All points of one move in order. Renewals of the lease are not among them, because their time varies."""
    counts: Counter[str] = Counter()
    found = []
    for call in calls:
        if is_about_lease(call):
            continue
        what = purpose(call)
        counts[what] += 1
        if counts[what] == 1 or not depends_on_timing(what):
            found.append(KillPoint(what, counts[what]))
    return tuple(found)


def acts(found: Iterable[KillPoint]) -> tuple[KillPoint, ...]:
    """The points that are equal in two undisturbed runs: they have an effect on members."""
    return tuple(point for point in found if not depends_on_timing(point.purpose))


def matcher(point: KillPoint) -> Callable[[Call], bool]:
    """A predicate that is true for the call of `point`; it counts the calls that it gets."""
    seen = 0

    def wanted(call: Call) -> bool:
        nonlocal seen
        if purpose(call) != point.purpose:
            return False
        seen += 1
        return seen == point.occurrence

    return wanted
