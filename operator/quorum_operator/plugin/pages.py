"""Output of `status`, `members` and `watch`: the resource and its events in, lines out. Pure.

Fields that another version of the operator may not write are optional here.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from quorum_operator.planner.times import seconds_of
from quorum_operator.plugin.layout import GAP, WIDTH, age, fields, paragraph, table

Object = dict[str, Any]

USUAL = dict.fromkeys(
    ("Ready", "Formed", "QuorumConfirmed", "TlsReady", "BackupCurrent", "Updated"), "True"
)
"""Conditions that are True in a healthy quorum; the others are False."""
_SHOWN_ELSEWHERE = {"Ready", "Progressing", "Degraded"}
"""Conditions shown elsewhere: in the lines Voters and Plan, and below each member."""
_ALL_IS_WELL = {
    ("TlsReady", "Disabled"),
    ("BackupCurrent", "Disabled"),
    ("BackupCurrent", "FirstPending"),
}
_EVENTS = 8
_PAGES = "docs/how-to/conditions"
PHASES = {
    "Pending": "the operator has not created the members yet",
    "Forming": "the initial voters are joining; client writes are rejected",
    "Ready": "all wanted voters are live",
    "Scaling": "members are being added or removed",
    "Repairing": "a failed member is being replaced",
    "Degraded": "it serves, but at least one member is unhealthy",
    "QuorumLost": "no majority of the voters is available: nothing is committed",
    "Recovering": "a survivor becomes the sole voter",
    "DiskFull": "the disk of a member is full",
    "Paused": "spec.paused is true: the operator changes nothing",
    "Deleting": "the resource is being deleted",
}


def status_page(
    quorum: Object, events: Sequence[Object], now: float, width: int = WIDTH
) -> list[str]:
    """The whole status; `now` in seconds since 1970."""
    meta, status = quorum["metadata"], quorum.get("status") or {}
    lines = _title(meta, now, width)
    if not status.get("phase"):
        return [*lines, "", *_without_status(meta, width)]
    lines += ["", *fields(_summary(quorum), width), "", *members_table(status, width)]
    for part in (
        _loss(status, width),
        _conditions(status, width),
        _repairs(status, now, width),
        _events(events, now, width),
    ):
        lines += ["", *part] if part else []
    return lines


def members_page(quorum: Object, width: int = WIDTH) -> list[str]:
    """One paragraph for each member with details that the table of `status` has no room for."""
    status = quorum.get("status") or {}
    members = status.get("members") or []
    if not members:
        return ["no members yet"]
    lines: list[str] = []
    for each in members:
        suspected = each.get("suspected")
        rows = [
            ("Member", f"{_number(each)} {each.get('role') or 'role unknown'}"),
            ("Voter", _yes(each.get("voter"))),
            ("Ready", _yes(each.get("ready"))),
            ("Directory id", each.get("uuid") or "not known yet"),
            ("Lag", _lag(each) + (" records" if each.get("lag") is not None else "")),
            ("Pod", each.get("pod") or "none"),
            ("Claim", each.get("pvc") or "none"),
            ("Host", each.get("node") or "none"),
            ("Condition", each.get("condition") or "well"),
        ]
        if each.get("unreachableSince"):
            rows.append(("Away since", each["unreachableSince"]))
        if suspected:
            sign = f"{suspected['reason']} of {suspected['subject']} since {suspected['since']}"
            rows.append(("Suspected", sign))
        lines += [*([""] if lines else []), *fields(rows, width)]
    return lines


def summary_line(quorum: Object) -> str:
    """One line with everything that changes, for `watch` without a terminal."""
    status = quorum.get("status") or {}
    members = status.get("members") or []
    leader = (status.get("leader") or {}).get("id")
    shown = " ".join(
        f"{_number(each)}{'*' if each['id'] == leader and each.get('role') == 'leader' else ''}"
        f"{'' if each.get('voter') else '(no voter)'}{'' if each.get('ready') else '(not ready)'}"
        for each in members
    )
    plan = status.get("plan") or {}
    named = f"leader {leader}" if leader is not None else "no leader"
    return (
        f"{status.get('phase') or 'no status'}, {named}, members [{shown}],"
        f" plan {plan.get('step', '-')}: {plan.get('reason', '-')}"
    )


def members_table(status: Object, width: int = WIDTH) -> list[str]:
    """One row for each member; its problem is on separate lines."""
    members = status.get("members") or []
    if not members:
        return ["no members yet"]
    lines = []
    shown = table(
        ("MEMBER", "ROLE", "VOTER", "READY", "LAG", "HOST"),
        [
            (
                _number(each),
                each.get("role") or "-",
                _yes(each.get("voter")),
                _yes(each.get("ready")),
                _lag(each),
                each.get("node") or "-",
            )
            for each in members
        ],
        width,
    )
    rows = iter(shown)
    lines.append(next(rows))
    pending = list(rows)
    for each in members:
        number = _number(each)
        lines.append(pending.pop(0))
        while pending and pending[0].startswith(" "):
            lines.append(pending.pop(0))
        for text in _troubles(each):
            lines += paragraph(text, width, len(number) + GAP)
    return lines


def _troubles(member: Object) -> list[str]:
    found = [member["condition"]] if member.get("condition") else []
    suspected = member.get("suspected")
    if suspected:
        found.append(f"may have a failed disk: {suspected['reason']} since {suspected['since']}")
    return found


def _title(meta: Object, now: float, width: int) -> list[str]:
    clock = datetime.fromtimestamp(now, UTC).strftime("%H:%M:%S UTC")
    name = f"{meta['namespace']}/{meta['name']}"
    return [f"{name.ljust(width - len(clock) - GAP)}{' ' * GAP}{clock}"]


def _without_status(meta: Object, width: int) -> list[str]:
    return paragraph(
        f"No status yet. If this persists for some seconds, no operator watches namespace {meta['namespace']}: check "
        "that its pod runs, and which namespaces it watches (docs/how-to/rights.md).",
        width,
    )


def _summary(quorum: Object) -> list[tuple[str, str]]:
    meta, spec, status = quorum["metadata"], quorum.get("spec") or {}, quorum["status"]
    phase = status["phase"]
    rows = [("Phase", ": ".join(filter(None, [phase, PHASES.get(phase, "")])))]
    if phase == "Paused":
        rows.append(("", f"To resume: kubectl quorum resume {meta['name']} -n {meta['namespace']}"))
    behind = status.get("observedGeneration")
    if behind is not None and behind < meta.get("generation", 0):
        rows.append(("", "The operator has not seen the latest change of the spec yet."))
    if meta.get("deletionTimestamp"):
        rows.append(("", f"Deleted at {meta['deletionTimestamp']}."))
    wanted = spec.get("replicas")
    rows.append(
        (
            "Voters",
            f"{status.get('voters', 0)} of {wanted} wanted; {status.get('readyReplicas', 0)} members ready",
        )
    )
    leader = status.get("leader")
    confirmed = (
        f"{leader['id']} in epoch {leader['epoch']}" if leader else "no majority confirms one"
    )
    rows += [("Leader", confirmed), ("Tolerance", _tolerance(status)), ("Plan", _plan(status))]
    rows.append(("Cluster id", status.get("clusterId") or "not chosen yet"))
    tls = status.get("tls")
    if tls:
        due = f"; the next is due for renewal at {tls['renewalAt']}" if tls.get("renewalAt") else ""
        rows.append(("TLS", f"{tls['mode']}, authority {tls.get('authority') or '-'}{due}"))
    return rows


def _tolerance(status: Object) -> str:
    found = status.get("failureTolerance")
    if not found:
        return "not known"
    now, after = found["now"], found["afterNextStep"]
    text = f"{now} more {'voter' if now == 1 else 'voters'} may fail"
    return text if now == after else f"{text}; {after} after the next step"


def _plan(status: Object) -> str:
    plan = status.get("plan")
    if not plan:
        return "-"
    if plan["step"] == "Nothing":
        return f"nothing to do: {plan['reason']}"
    blocked = f" (blocked by: {plan['blockedBy']})" if plan.get("blockedBy") else ""
    since = f", since {plan['since']}" if plan.get("since") else ""
    return f"{plan['step']}{since}: {plan['reason']}{blocked}"


def _loss(status: Object, width: int) -> list[str]:
    loss = status.get("quorumLoss")
    if not loss:
        return []
    lines = ["Replicas of the lost quorum:"]
    lines += table(
        ("ID", "VOTER", "EPOCH", "LOG END", "COMMITTED", "STATE"),
        [
            (
                str(each["id"]),
                _yes(each.get("voter")),
                _or_dash(each.get("epoch")),
                _or_dash(each.get("endOffset")),
                _or_dash(each.get("committedOffset")),
                each.get("lost") or "answers",
            )
            for each in loss.get("replicas") or []
        ],
        width,
        indent=2,
    )
    offer = loss.get("offer")
    if offer is None:
        return [*lines, *paragraph(f"No recovery is offered: {loss.get('noOffer') or '-'}", width)]
    lines += paragraph(
        "Offered as a last resort; committed records that are not in this log are lost (docs/how-to/recovery.md):",
        width,
    )
    lines += ["  spec:", "    recovery:"]
    for key in ("id", "uuid", "epoch", "endOffset"):
        value = f'"{offer[key]}"' if key == "uuid" else offer[key]
        lines.append(f"      {key}: {value}")
    return lines


def _conditions(status: Object, width: int) -> list[str]:
    lines: list[str] = []
    for each in status.get("conditions") or []:
        name, value = each["type"], each["status"]
        well = value == USUAL.get(name, "False") or (name, each["reason"]) in _ALL_IS_WELL
        if well or name in _SHOWN_ELSEWHERE:
            continue
        lines.append(f"  {name}={value} ({each['reason']})")
        lines += [*paragraph(each["message"], width, 4), f"    See {_PAGES}/{name}.md"]
    return ["Conditions to look at:", *lines] if lines else []


def _repairs(status: Object, now: float, width: int) -> list[str]:
    rows = []
    for each in (status.get("repairs") or [])[-3:]:
        took = f" after {each['seconds']:g} s" if each.get("seconds") is not None else ""
        done = f"done{took}" if each.get("finishedAt") else "under way"
        ago = age(now - seconds_of(each["startedAt"]))
        rows.append((f"{each['id']}-{each['incarnation']}", ago, done, each["reason"]))
    return (
        ["Repairs:", *table(("MEMBER", "AGE", "STATE", "REASON"), rows, width, 2)] if rows else []
    )


def _events(events: Sequence[Object], now: float, width: int) -> list[str]:
    timed = sorted(((_event_time(each), at, each) for at, each in enumerate(events)), reverse=True)
    rows = [
        (
            age(now - at),
            each.get("type") or "-",
            each.get("reason") or "-",
            each.get("message") or "-",
        )
        for at, _, each in timed[:_EVENTS]
    ]
    shown = [(*row[:3], _shortened(row[3], row, width)) for row in rows]
    head = ("AGE", "TYPE", "REASON", "MESSAGE")
    return ["Events:", *table(head, shown, width, 2)] if rows else []


def _shortened(message: str, row: Sequence[str], width: int) -> str:
    """Shorten a message to about three lines, because the list of events is an overview."""
    room = 3 * max(width - 2 - sum(len(each) + GAP for each in row[:3]) - 8, 20)
    flat = " ".join(message.split())
    return flat if len(flat) <= room else f"{flat[: room - 2]} …"


def _event_time(event: Object) -> float:
    for key in ("lastTimestamp", "eventTime", "firstTimestamp"):
        if event.get(key):
            return seconds_of(event[key])
    return seconds_of(
        (event.get("metadata") or {}).get("creationTimestamp") or "1970-01-01T00:00:00Z"
    )


def _number(member: Object) -> str:
    incarnation = member.get("incarnation")
    return f"{member['id']}-{incarnation}" if incarnation is not None else str(member["id"])


def _lag(member: Object) -> str:
    return _or_dash(member.get("lag"))


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _yes(value: object) -> str:
    return "yes" if value else "no"
