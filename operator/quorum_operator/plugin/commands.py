"""The commands of `kubectl quorum`: each reads the resource, and changes at most one field of its spec.

The operator acts on the change; `watch` shows the progress.
"""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from shutil import get_terminal_size

from quorum_operator.plugin.kubectl import (
    CommandFailed,
    ConflictingChange,
    Kubectl,
    NoSuchQuorum,
    Object,
)
from quorum_operator.plugin.layout import WIDTH, printable
from quorum_operator.plugin.pages import members_page, status_page, summary_line

_CLEAR = "\x1b[H\x1b[J"
_TOKEN_FILE = "/etc/metadataquorum-token/token"
_POD = re.compile("[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MOST_RETIRED = 16
_MOST_WIDTH = 160
_MOST_CONFLICTS = 5


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of a command: the quorum, and kubectl in its namespace."""

    kubectl: Kubectl
    name: str


def status(call: Call) -> list[str]:
    """Print the status once."""
    return _page(call)


def members(call: Call) -> list[str]:
    """Print details of each member."""
    return members_page(call.kubectl.quorum(call.name), _width())


def watch(
    call: Call,
    interval_s: float,
    count: int | None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Print the status repeatedly; without a terminal one line per change. `count`: number of reads.

    The API server may be unavailable for a while, so a failed read is reported and repeated. Raises CommandFailed if the
    first or the last read fails, or if the resource was deleted.
    """
    last, looks = "", 0
    while count is None or looks < count:
        looks += 1
        try:
            last = _show_page(call) if sys.stdout.isatty() else _show_change(call, last)
        except NoSuchQuorum:
            raise
        except CommandFailed as error:
            if looks in (1, count):
                raise
            last = _show_failure(str(error), last)
        sys.stdout.flush()
        if looks != count:
            sleep(interval_s)


def _show_page(call: Call) -> str:
    lines = _on_screen(_page(call), get_terminal_size().lines)
    sys.stdout.write(_CLEAR + printable("\n".join(lines)) + "\n")
    return ""


def _show_change(call: Call, last: str) -> str:
    """Print a line unless it is the `last` one; returns it."""
    line = summary_line(call.kubectl.quorum(call.name))
    if line != last:
        print(printable(f"{time.strftime('%H:%M:%S')}  {line}"))
    return line


def _show_failure(error: str, last: str) -> str:
    """Print an error below what is shown, unless it is the `last` one; returns it."""
    if error != last:
        print(printable(f"kubectl quorum: {error}\nTrying again"), file=sys.stderr, flush=True)
    return error


def replace(call: Call, node_id: int) -> list[str]:
    """Replace a member by one with a new id, using spec.retire."""
    quorum = call.kubectl.quorum(call.name)
    retired = list((quorum.get("spec") or {}).get("retire") or [])
    known = [each["id"] for each in _members(quorum)]
    if node_id in retired:
        return [f"spec.retire already lists member {node_id}", _follow(call)]
    if node_id not in known:
        there = ", ".join(map(str, known)) or "none"
        raise CommandFailed(f"{call.name} has no member {node_id}; its members: {there}")
    if len(retired) >= _MOST_RETIRED:
        raise CommandFailed(
            f"spec.retire is full ({_MOST_RETIRED} ids): remove ids of members that have left with"
            f" `kubectl edit metadataquorum {call.name}`"
        )
    _change(call, quorum, {"retire": [*retired, node_id]})
    return [f"member {node_id} will be replaced by a member with a new id", _follow(call)]


def transfer(call: Call, successor: int | None) -> list[str]:
    """Transfer leadership through the leader's admin API, without the operator."""
    quorum = call.kubectl.quorum(call.name)
    found = quorum.get("status") or {}
    leader = (found.get("leader") or {}).get("id")
    pod = next((_pod(each) for each in _members(quorum) if each.get("role") == "leader"), None)
    if leader is None or pod is None:
        raise CommandFailed(
            f"no majority of {call.name} confirms a leader, so leadership can't be transferred: see `kubectl quorum "
            "status`"
        )
    if successor == leader:
        return [f"member {leader} is already the leader"]
    voters = [each["id"] for each in _members(quorum) if each.get("voter")]
    if successor is not None and successor not in voters:
        raise CommandFailed(
            f"member {successor} is not a voter of {call.name}; voters: {', '.join(map(str, voters))}"
        )
    chosen = ["--successor", str(successor)] if successor is not None else []
    command = ["quorumctl", "--token-file", _TOKEN_FILE, "resign", *chosen]
    return [call.kubectl.execute(pod, command).strip(), _follow(call)]


def pause(call: Call) -> list[str]:
    """Suspend all changes."""
    return _set_paused(call, True)


def resume(call: Call) -> list[str]:
    """End the pause."""
    return _set_paused(call, False)


def logs(call: Call, node_id: int | None, follow: bool, tail: int, previous: bool) -> int:
    """Print logs of one member or of all; returns kubectl's exit code."""
    found = _members(call.kubectl.quorum(call.name))
    chosen = [each for each in found if node_id is None or each["id"] == node_id]
    pods = [pod for each in chosen if (pod := _pod(each)) is not None]
    if not pods:
        whose = "any member" if node_id is None else f"member {node_id}"
        raise CommandFailed(f"there is no pod of {whose}: see `kubectl quorum members {call.name}`")
    options = ["-c", "node", f"--tail={tail}"]
    options += ["--follow"] if follow else []
    options += ["--previous"] if previous else []
    if node_id is not None:
        return call.kubectl.logs([pods[-1], *options])
    labels = f"app.kubernetes.io/name=metadataquorum,app.kubernetes.io/instance={call.name}"
    concurrent = [f"--max-log-requests={max(len(pods), 5)}"]
    return call.kubectl.logs(["-l", labels, "--prefix", *concurrent, *options])


def _set_paused(call: Call, wanted: bool) -> list[str]:
    quorum = call.kubectl.quorum(call.name)
    word = "paused" if wanted else "not paused"
    if bool((quorum.get("spec") or {}).get("paused")) is wanted:
        return [f"{call.name} is already {word}"]
    _change(call, quorum, {"paused": wanted})
    if wanted:
        return [
            f"{call.name} is paused: nothing is changed or repaired until `kubectl quorum resume {call.name}`"
        ]
    return [f"{call.name} is resumed", _follow(call)]


def _change(call: Call, quorum: Object, spec: Object) -> None:
    """Patch the resource, on condition that its spec is the one that was read. Raises CommandFailed if it is not.

    The condition of the API server is the version of the whole resource, whose status the operator may write at any
    time. So a conflict is repeated with the current version while the generation, which counts changes of the spec, and
    the UID are the same.
    """
    read = quorum["metadata"]
    for _ in range(_MOST_CONFLICTS):
        version = quorum["metadata"]["resourceVersion"]
        try:
            call.kubectl.patch(call.name, {"metadata": {"resourceVersion": version}, "spec": spec})
        except ConflictingChange as conflict:
            rejected = conflict
        else:
            return
        quorum = call.kubectl.quorum(call.name)
        if any(quorum["metadata"][part] != read[part] for part in ("uid", "generation")):
            break
    raise rejected


def _members(quorum: Object) -> list[Object]:
    found: list[Object] = (quorum.get("status") or {}).get("members") or []
    return found


def _pod(member: Object) -> str | None:
    """The name of its pod; None if it is missing or invalid. The status may have been edited, and kubectl would parse a
    name that begins with a hyphen as an option, such as another server.
    """
    name = member.get("pod")
    return name if name and _POD.fullmatch(name) else None


def _page(call: Call) -> list[str]:
    quorum = call.kubectl.quorum(call.name)
    return status_page(quorum, call.kubectl.events(call.name), time.time(), _width())


def _width() -> int:
    """Width of the terminal, or a readable default without one."""
    return max(min(get_terminal_size((WIDTH, 24)).columns, _MOST_WIDTH), 40)


def _on_screen(lines: list[str], height: int) -> list[str]:
    """The lines that fit on the screen."""
    room = max(height - 3, 5)
    kept = lines if len(lines) <= room else [*lines[: room - 1], "… (more: kubectl quorum status)"]
    return [*kept, "", "Ctrl-C ends"]


def _follow(call: Call) -> str:
    space = f" -n {call.kubectl.namespace}" if call.kubectl.namespace else ""
    return f"kubectl quorum watch {call.name}{space} shows the progress"
