"""The report of a failed round: how to repeat it, what was done, and what was observed."""

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.quorum import NO_ANSWER
from support.random_changes.drawing import Round
from support.random_changes.operations import Operations
from support.random_changes.operator_log import OperatorLog

_EVENTS = 60
_LOG_LINES = 40


def again(plan: Round) -> str:
    """The command that plays the same round."""
    return f"make random-changes SEEDS={plan.seed}"


def report(
    operations: Operations,
    plan: Round,
    action_log: list[str],
    problems: list[str],
    log: OperatorLog,
) -> str:
    """The whole text."""
    parts = {
        "problems": problems,
        "again": [again(plan)],
        "drawn": str(plan).splitlines(),
        "what happened": action_log,
        "conditions": _conditions(operations),
        "events": _events(operations),
        "the operator's steps": [_step(each) for each in log.steps()],
        "the operator's log": log.tail(_LOG_LINES),
    }
    return "\n".join(
        f"--- {title}\n" + "\n".join(f"  {line}" for line in lines)
        for title, lines in parts.items()
    )


def _conditions(operations: Operations) -> list[str]:
    try:
        status = operations.quorum.status()
    except NO_ANSWER as error:
        return [repr(error)]
    reported = [
        f"{each['type']}={each['status']} {each['reason']} since {each['lastTransitionTime']}: {each['message']}"
        for each in status.get("conditions", [])
    ]
    members = [str(each) for each in status.get("members", [])]
    return [*reported, f"plan {status.get('plan')}", *members]


def _events(operations: Operations) -> list[str]:
    try:
        events = operations.api.list(kube.core(operations.namespace, "events"))
    except NO_ANSWER as error:
        return [repr(error)]
    events.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime")))
    return [
        f"{each.get('lastTimestamp') or each.get('eventTime')} {each['involvedObject']['kind']}/"
        f"{each['involvedObject']['name']} {each.get('reason')}: {each.get('message', '')[:200]}"
        for each in events[-_EVENTS:]
    ]


def _step(record: Json) -> str:
    outcome = f" — {record['outcome']}" if record.get("outcome") else ""
    done = "" if record.get("changed") else " (not done)"
    return f"{record['timestamp']} {record['step']}{done}: {record['reason']}{outcome}"
