"""One round on kind: the quorum, the load, the acts at their times, and the checks."""

import time
from collections.abc import Iterator

from support.envtest.kube_api import Json
from support.kind_env.environment import KindEnv
from support.kind_env.quorum import NO_ANSWER
from support.kind_env.testbed import TestbedError
from support.random_changes import alter_acts
from support.random_changes.act import Doing, Drawn, FinalCondition
from support.random_changes.drawing import Round
from support.random_changes.harm import harm, stops
from support.random_changes.operations import Operations, TargetMissing
from support.random_changes.report import report
from support.random_changes.settled import unsettled
from support.random_changes.watching import RoundWatch
from support.seeded_rounds import ActionLog, PassedRound, RoundFailed, Say

SETTLED_S = 120.0
SLOTS = 7
"""Disks on each worker: a round may move every member twice."""

_LOOK_S = 0.5
_AFTER_S = 0.01
_CALM_S = 4.0
"""It must stay settled for that long: a leader misses a killed voter after its fetch timeout of 2 s only."""
_SHOWN = 160
_REFUSALS = (TargetMissing, TestbedError, AssertionError, *NO_ANSWER)


def run_round(env: KindEnv, plan: Round, say: Say) -> PassedRound:
    """Raises RoundFailed when it does not settle, harm was done, or something was lost."""
    action_log = ActionLog(say)
    env.cluster.provide_disks(SLOTS)
    spec = env.document(replicas=plan.replicas, **plan.choices)["spec"]
    env.create_under_load(plan.replicas, **plan.choices)
    operations = Operations(env, spec)
    action_log.note(f"{plan.replicas} voters serve")
    problems: list[str] = []
    answered: list[str] = []
    settled_s, acknowledged = 0.0, 0
    with RoundWatch(operations) as watch:
        try:
            play(operations, plan, action_log)
            settled_s, answered, problems = settle(operations, plan, action_log)
        finally:
            operations.calm()
    problems += watch.problems + harm(watch.samples, stops(watch.log.steps()))
    if not problems:
        try:
            env.the_load.renew_token()
            env.the_load.renew_trust()
            recoveries = answered.count("QuorumLost")
            alters = any(each.act in alter_acts.ACTS for each in plan.acts)
            verdict = env.prove_nothing_lost(recoveries=recoveries, alters=alters)
            acknowledged = verdict.acknowledged
        except AssertionError as error:
            problems = [f"records: {error}"]
    if problems:
        raise RoundFailed(report(operations, plan, action_log.lines, problems, watch.log))
    return PassedRound(round(settled_s, 1), acknowledged, tuple(answered))


def play(operations: Operations, plan: Round, action_log: ActionLog) -> None:
    """Run each act at its time, and undo each temporary one at its own; all are undone at the end."""
    begun = time.monotonic()
    agenda = sorted((drawn.at_s, number) for number, drawn in enumerate(plan.acts))
    under_way: dict[int, Doing] = {}
    try:
        while agenda:
            due, number = agenda.pop(0)
            time.sleep(max(0.0, begun + due - time.monotonic()))
            drawn = plan.acts[number]
            if number in under_way:
                _take_back(operations, drawn, under_way.pop(number), action_log)
                continue
            doing = _begin(operations, drawn, action_log)
            if doing is not None and drawn.lasts_s is not None:
                under_way[number] = doing
                end = time.monotonic() - begun + drawn.lasts_s
                least = end + _AFTER_S if drawn.act.halts else 0.0
                agenda = [(max(due, least), each) for due, each in agenda]
                agenda = sorted([*agenda, (end, number)])
    finally:
        for number, doing in under_way.items():
            _take_back(operations, plan.acts[number], doing, action_log)


def _begin(operations: Operations, drawn: Drawn, action_log: ActionLog) -> Doing | None:
    doing = drawn.act.do(operations, drawn)
    try:
        action_log.note(f"{drawn.act.name}: {next(doing)}")
    except _REFUSALS as error:
        action_log.note(f"{drawn.act.name}: not done: {error}")
        return None
    return doing


def _take_back(operations: Operations, drawn: Drawn, doing: Doing, action_log: ActionLog) -> None:
    operations.await_restart()
    try:
        next(doing, None)
        action_log.note(f"{drawn.act.name}: over")
    except _REFUSALS as error:
        action_log.note(f"{drawn.act.name}: could not be taken back: {error}")


def settle(
    operations: Operations, plan: Round, action_log: ActionLog
) -> tuple[float, list[str], list[str]]:
    """Seconds until it was settled, the answered conditions, and the remaining differences."""
    begun = time.monotonic()
    deadline = begun + SETTLED_S
    answered: list[str] = []
    open_endings = list(_endings(plan))
    calm_from, found = begun, ["nobody looked"]
    while found or time.monotonic() - calm_from < _CALM_S:
        news = look(operations)
        if news != found:
            action_log.note("; ".join(each[:_SHOWN] for each in news[:3]) or "as wanted")
        found = news
        if found:
            calm_from = time.monotonic()
        if time.monotonic() > deadline:
            return time.monotonic() - begun, answered, [f"not settled: {each}" for each in found]
        for ending in list(open_endings):
            condition = _condition(operations, ending.type)
            if condition is not None and ending.holds(condition):
                open_endings.remove(ending)
                action_log.note(f"a person answers {ending.type}: {condition['message']}")
                try:
                    action_log.note(ending.answer(operations, condition["message"]))
                except _REFUSALS as error:
                    action_log.note(f"what it says could not be done: {error}")
                answered.append(ending.type)
                deadline = time.monotonic() + SETTLED_S
        time.sleep(_LOOK_S)
    action_log.note(f"settled after {time.monotonic() - begun:.1f} s")
    return time.monotonic() - begun, answered, []


def _condition(operations: Operations, kind: str) -> Json | None:
    """None also if the API server does not answer, or the resource is gone."""
    try:
        return operations.quorum.condition(kind)
    except NO_ANSWER:
        return None


def _endings(plan: Round) -> Iterator[FinalCondition]:
    for drawn in plan.acts:
        yield from drawn.act.endings


def look(operations: Operations) -> list[str]:
    """The current differences from the spec."""
    try:
        resource = operations.quorum.resource()
        described = operations.quorum.describe()
        return unsettled(
            resource, described, int(operations.good["replicas"]), operations.drifted()
        )
    except NO_ANSWER as error:
        return [f"the API server: {error!r}"]
