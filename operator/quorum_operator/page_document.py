"""The live page as HTML, from the statuses of quorums. Pure.

One document without scripts and external resources; the browser reloads it periodically. All values from resources
are escaped, and the size of the page is bounded.
"""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from quorum_operator.status_crd import MetadataQuorumStatus, RepairStatus

AGAIN_S = 2
MOST_QUORUMS = 100
MOST_MEMBERS = 16
MOST_MOVES = 10
_MOST_WORDS = 300

_STYLE = """body{font:14px/1.4 sans-serif;margin:1.5em;color:#222;background:#fff}
h2{margin:1.6em 0 .3em}table{border-collapse:collapse;margin:.5em 0}
th,td{text-align:left;padding:.15em .8em .15em 0;vertical-align:top}th{font-weight:600;border-bottom:1px solid #999}
td:first-child{white-space:nowrap}
.bad{color:#a00;font-weight:600}.good{color:#060}.quiet{color:#666}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}.bad{color:#f88}.good{color:#8d8}.quiet{color:#999}}"""
_DIGEST = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'; base-uri 'none'"
)
"""Content-Security-Policy: only this document's own style."""


@dataclass(frozen=True, slots=True)
class Move:
    """An executed step. `at`: its time in the format of Kubernetes."""

    at: str
    step: str
    reason: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The last known state of a quorum."""

    namespace: str
    name: str
    status: MetadataQuorumStatus
    moves: tuple[Move, ...] = ()
    """Oldest first."""


def document(quorums: Sequence[Shown], now: str, *, works: bool) -> str:
    """The page. `works`: whether this operator holds the lease, if there is one."""
    shown = sorted(quorums, key=lambda each: (each.namespace, each.name))
    body = "".join(map(_quorum, shown[:MOST_QUORUMS]))
    if len(shown) > MOST_QUORUMS:
        body += f'<p class="quiet">and {len(shown) - MOST_QUORUMS} more</p>'
    if not shown:
        body = "<p>No MetadataQuorum has been reconciled yet.</p>"
    if not works:
        body = '<p class="bad">This operator is on standby: another one holds the lease and shows the page.</p>'
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{AGAIN_S}"><title>MetadataQuorums</title>'
        f'<style>{_STYLE}</style></head><body><h1>MetadataQuorums</h1><p class="quiet">as of {_text(now)}</p>'
        f"{body}</body></html>"
    )


def _quorum(each: Shown) -> str:
    status = each.status
    anchor = escape(f"{each.namespace}/{each.name}", quote=True)
    tone = "good" if status.phase.value == "Ready" else "bad"
    parts = [
        f'<section id="{anchor}"><h2>{anchor} <span class="{tone}">{_text(status.phase.value)}</span></h2>',
        _facts(status),
        _members(status),
        _moves(each.moves),
        _repairs(status.repairs),
        "</section>",
    ]
    return "".join(parts)


def _facts(status: MetadataQuorumStatus) -> str:
    leader = status.leader
    led = "not known" if leader is None else f"member {leader.id}, epoch {leader.epoch}"
    tolerance = status.failure_tolerance
    spare = "not known"
    if tolerance is not None:
        spare = f"{tolerance.now} now, {tolerance.after_next_step} after the next step"
    plan = status.plan
    planned = "not known"
    if plan is not None:
        blocked = f" (blocked by: {plan.blocked_by})" if plan.blocked_by else ""
        planned = f"{plan.step} since {plan.since}: {plan.reason}{blocked}"
    rows = [
        ("Voters", f"{status.voters}, {status.ready_replicas} members ready"),
        ("Leader", led),
        ("Failures tolerated", spare),
        ("Plan", planned),
        ("Cluster id", status.cluster_id or "not known"),
    ]
    return _table((), rows, "facts")


def _members(status: MetadataQuorumStatus) -> str:
    rows = [
        (
            str(each.id),
            each.role or "-",
            "voter" if each.voter else "no voter",
            "ready" if each.ready else "not ready",
            "-" if each.lag is None else str(each.lag),
            each.pod or "-",
            each.node or "-",
            each.condition or "",
        )
        for each in status.members[:MOST_MEMBERS]
    ]
    head = ("Member", "Role", "Vote", "Pod is", "Lag (records)", "Pod", "Host", "Condition")
    return _table(head, rows, "members")


def _moves(moves: Sequence[Move]) -> str:
    rows = [(each.at, each.step, each.reason) for each in reversed(moves[-MOST_MOVES:])]
    return _table(("Last moves", "Step", "Why"), rows, "moves") if rows else ""


def _repairs(repairs: Sequence[RepairStatus]) -> str:
    rows = [
        (
            each.started_at,
            f"{each.id}-{each.incarnation}",
            each.reason,
            "under way" if each.seconds is None else f"{each.seconds:g} s",
        )
        for each in reversed(repairs[-MOST_MOVES:])
    ]
    return _table(("Repairs", "Member", "Reason", "Took"), rows, "repairs") if rows else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    titles = "".join(f"<th>{_text(each)}</th>" for each in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<table class="{kind}">{"<tr>" + titles + "</tr>" if head else ""}{lines}</table>'


def _text(value: str) -> str:
    short = value if len(value) <= _MOST_WORDS else value[: _MOST_WORDS - 1] + "…"
    return escape(short, quote=True)
