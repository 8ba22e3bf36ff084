"""A quorum in one process that migrates from clear text to TLS: pods are created from the current templates and serve at once.

After every write the test checks that all running processes can communicate, and that a majority is running.
"""

from dataclasses import replace

from quorum_operator.admin_call import Answer
from quorum_operator.kube import facts
from quorum_operator.planner.observed import Key, NodeReport, QuorumView
from quorum_operator.planner.tls_stage import TlsStage, stage_of_process
from quorum_operator.quorum_client import Described
from support.in_memory_kube_api import HealthyNodes, InMemoryKubeApi, pod_path, set_path, start_pod
from support.secured_quorum import SecuredNodes

STRANGERS = (
    {TlsStage.PLAIN, TlsStage.DIALLING},
    {TlsStage.PLAIN, TlsStage.CLOSED},
    {TlsStage.ACCEPTING, TlsStage.CLOSED},
)
"""Stages of two processes of which one does not understand the other."""


class MigratingNodes(SecuredNodes):
    """`clear_text`: which clients use it with members. `broken`: members whose process does not start with certificates."""

    def __init__(self, api: InMemoryKubeApi, members: int = 3) -> None:
        super().__init__(api, members)
        self.leader = 1
        self.clear_text: frozenset[str] = frozenset()
        self.broken: set[int] = set()
        self.seen: list[TlsStage] = []
        """Stages that all members have had, in this order."""

    def stage(self, node_id: int) -> TlsStage | None:
        """TLS stage of a process; None if it does not run."""
        pod = self._api.objects.get(pod_path(node_id))
        return None if pod is None else stage_of_process(facts.overrides_in(pod["spec"]))

    def kubelet(self) -> None:
        """Create missing pods."""
        for node_id in range(1, self.members + 1):
            if self.stage(node_id) is None:
                start_pod(self._api, self._api.objects[set_path(node_id)], node_id)
            pod = self._api.objects[pod_path(node_id)]
            if self.is_broken(node_id):
                pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
                waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
                pod["status"]["containerStatuses"] = [{"state": waiting}]
        stages = {self.stage(each) for each in range(1, self.members + 1)}
        if len(stages) == 1 and (not self.seen or {self.seen[-1]} != stages):
            self.seen += [each for each in stages if each is not None]

    def is_broken(self, node_id: int) -> bool:
        return node_id in self.broken and self.stage(node_id) is not TlsStage.PLAIN

    def complaints(self) -> list[str]:
        """Violations of the invariants."""
        there = {each: self.stage(each) for each in range(1, self.members + 1)}
        stages = {each for each in there.values() if each is not None}
        found = [f"{pair} at once" for pair in STRANGERS if pair <= stages]
        missing = [each for each, stage in there.items() if stage is None or self.is_broken(each)]
        return [*found, *([f"{missing} are away"] if len(missing) > 1 else [])]

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        stage = self.stage(node_id)
        if stage is None or self.is_broken(node_id):
            return None
        if stage is TlsStage.PLAIN:
            return await HealthyNodes.report(self, ip, node_id)
        found_report = await super().report(ip, node_id)
        if found_report is None or found_report.certificates is None or not stage.takes_both:
            return found_report
        reported = replace(found_report.certificates, clear_text=self.clear_text)
        return replace(found_report, certificates=reported)

    async def describe(self, ips: list[str]) -> Described:
        found = await super().describe(ips)
        if found.view is None:
            return found
        away = {each for each in range(1, self.members + 1) if self.stage(each) is None}
        away |= {each for each in self.broken if self.is_broken(each)}
        voters = tuple(
            replace(each, fetching=each.key.id not in away, caught_up=each.key.id not in away)
            for each in found.view.voters
        )
        view: QuorumView = replace(
            found.view, leader=Key(self.leader, f"U{self.leader}"), voters=voters
        )
        return Described(view, None)

    async def resign(self, ip: str, token: str, successor_id: int) -> Answer:
        """The leader hands over."""
        self.leader = successor_id
        return Answer(True)
