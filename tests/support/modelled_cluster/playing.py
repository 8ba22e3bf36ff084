"""One round on a modelled cluster: the same acts at the same times as on kind, and the same questions at the end."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from support.envtest.kube_api import Json
from support.kind_env import installation, kube
from support.modelled_cluster.cluster import ModelledCluster
from support.modelled_cluster.stand_ins import stand_ins
from support.modelled_cluster.surface import ModelledEnv, ModelledOperations
from support.random_changes.drawing import Round
from support.random_changes.harm import harm, stops
from support.random_changes.report import report
from support.random_changes.running import play, settle
from support.random_changes.settled import unsettled
from support.seeded_rounds import ActionLog, PassedRound, RoundFailed, Say

NAME = "q"
FORMED_S = 120.0


@dataclass
class OperatorRecords:
    """The records of the operator's log in this process; see `OperatorLog`. `clock`: seconds since 1970."""

    clock: Any
    found: list[Json] = field(default_factory=list)

    def __call__(self, logger: Any, method: str, record: Any) -> Any:
        at = self.clock()
        stamp = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-4]
        self.found.append({**record, "at": at, "timestamp": stamp, "level": method})
        raise structlog.DropEvent

    def steps(self) -> list[Json]:
        return [each for each in self.found if each.get("event") == "step"]

    def bugs(self) -> list[str]:
        """Unexpected exceptions."""
        return [
            f"the operator: {each['event']}: {each.get('error') or each.get('exc_info')}"
            for each in self.found
            if each["level"] in ("exception", "error") and "exc_info" in each
        ]

    def tail(self, count: int) -> list[str]:
        others = [each for each in self.found if each.get("event") != "step"]
        return [str(each) for each in others[-count:]]


def play_round(plan: Round, say: Say) -> PassedRound:
    """Raises RoundFailed when it does not settle, harm was done, or something was lost."""
    with modelled(plan.seed) as (cluster, env, records):
        return _played(cluster, env, plan, records, say)


@contextmanager
def modelled(seed: int) -> Iterator[tuple[ModelledCluster, ModelledEnv, OperatorRecords]]:
    """A modelled cluster with an operator, and no quorum yet."""
    cluster = ModelledCluster(seed, f"anything-{seed}", NAME)
    records = OperatorRecords(cluster.now)
    configured = structlog.get_config()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            stand_ins(cluster, seed),
        ):
            structlog.configure(processors=[structlog.processors.format_exc_info, records])
            cluster.begin()
            try:
                yield cluster, ModelledEnv(cluster, Path(folder)), records
            finally:
                cluster.end()
    finally:
        structlog.configure(**configured)


def _played(
    cluster: ModelledCluster, env: ModelledEnv, plan: Round, records: OperatorRecords, say: Say
) -> PassedRound:
    action_log = ActionLog(say, cluster.loop.time())
    spec = apply(env, {"replicas": plan.replicas, **plan.choices})
    await_serving(cluster, env, plan.replicas)
    operations = ModelledOperations(cluster, env, spec)
    action_log.note(f"{plan.replicas} voters serve")
    begun = cluster.now()
    problems: list[str] = []
    answered: list[str] = []
    settled_s = 0.0
    try:
        play(operations, plan, action_log)
        settled_s, answered, problems = settle(operations, plan, action_log)
    finally:
        operations.calm()
    samples = [each for each in cluster.samples if each.at >= begun]
    problems += harm(samples, stops([each for each in records.steps() if each["at"] >= begun]))
    problems += [each for quorum in cluster.quorums.values() for each in quorum.problems]
    problems += records.bugs()
    if problems:
        log: Any = records
        raise RoundFailed(report(operations, plan, action_log.lines, problems, log))
    committed = max(each.committed for each in cluster.quorums.values())
    return PassedRound(round(settled_s, 1), committed, tuple(answered))


def apply(env: ModelledEnv, choices: Json) -> Json:
    """Create the example's quorum with these fields of the spec. Returns its whole spec."""
    document = installation.example()
    spec: Json = {**document["spec"], **choices}
    env.api.create(
        kube.quorums(env.namespace), {**document, "metadata": {"name": NAME}, "spec": spec}
    )
    return spec


def await_serving(cluster: ModelledCluster, env: ModelledEnv, replicas: int) -> None:
    """Raises RoundFailed if the quorum does not match its spec within FORMED_S."""
    found = ["nobody looked"]
    deadline = cluster.now() + FORMED_S
    while found:
        if cluster.now() > deadline:
            raise RoundFailed(f"not formed: {found}")
        cluster.sleep(0.5)
        resource = env.the_quorum.resource()
        found = unsettled(resource, env.the_quorum.describe(), replicas, ())
