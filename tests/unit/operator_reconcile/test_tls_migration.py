"""A running quorum goes from clear text to TLS and back in the real reconcile: stage by stage, interrupted at any point."""

import asyncio
from typing import Any

import httpx
import pytest

from quorum_operator.certificate_keeper import CertificateKeeper
from quorum_operator.desired import names
from quorum_operator.metrics import Metrics
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.pod_client import TlsPodClient
from quorum_operator.reconcile import Reconciler
from support.in_memory_kube_api import NAME, SPACE, running_quorum
from support.migrating_quorum import MigratingNodes

PLAIN, ACCEPTING, DIALLING, CLOSED = TlsStage
IDENTITY = f"/api/v1/namespaces/{SPACE}/configmaps/demo-identity"
MOST_LOOKS = 250


class Killed(BaseException):
    """The operator's process ends."""


class Env:
    """A quorum of three that was formed in clear text; it is checked after every write."""

    def __init__(self) -> None:
        self.api = running_quorum(3)
        self.nodes = MigratingNodes(self.api)
        self.complaints: list[str] = []
        self.left: float = float("inf")
        """So many more writes, then the operator is killed."""
        self.api.refuse = self._before
        self.api.objects[self.api.resource_path]["metadata"]["generation"] = 1

    def _before(self, verb: str, path: str) -> None:
        self.complaints += self.nodes.complaints()
        if verb in {"get", "list"}:
            return
        self.left -= 1
        if self.left < 0:
            raise Killed

    def operator(self) -> Reconciler:
        unchecked: Any = self.api
        nodes: Any = self.nodes
        clock = lambda: float(self.nodes.now)  # noqa: E731
        refuse = httpx.MockTransport(lambda _: httpx.Response(500))
        keeper = CertificateKeeper(unchecked, clock, lambda _: httpx.AsyncClient(transport=refuse))
        return Reconciler(unchecked, nodes, Metrics(), None, clock=clock, certificates=keeper)

    def ask(self, mode: str | None) -> None:
        self.api.change_spec(tls=None if mode is None else {"mode": mode})

    def look(self, operator: Reconciler) -> None:
        asyncio.run(operator.reconcile(SPACE, NAME))
        self.nodes.kubelet()
        self.complaints += self.nodes.complaints()
        self.nodes.now += 1
        assert self.complaints == []

    def rest(self, looks: int = 4) -> None:
        """Until nothing is written any more."""
        operator, quiet = self.operator(), 0
        for _ in range(MOST_LOOKS):
            before = len(self.api.writes)
            self.look(operator)
            quiet = quiet + 1 if len(self.api.writes) == before else 0
            if quiet >= looks:
                return
        raise AssertionError(self.message())

    def message(self) -> str:
        found = self.api.condition("TlsReady")
        return f"{found.get('reason')}: {found.get('message')}"

    @property
    def stage(self) -> str:
        return self.api.objects[IDENTITY]["metadata"]["annotations"].get(
            names.ANNOTATION_TLS_STAGE, "Plain"
        )


def test_quorum_migrates_to_tls_when_specified() -> None:
    env = Env()
    env.rest()
    assert (env.stage, env.nodes.seen) == ("Plain", [PLAIN]), "a stage began automatically"
    env.ask("Managed")
    env.rest()
    assert env.nodes.seen == [PLAIN, ACCEPTING, DIALLING, CLOSED]
    assert env.message().startswith("CertificatesIssued")
    assert env.api.status["tls"]["mode"] == "Managed"
    config = env.api.objects[f"/api/v1/namespaces/{SPACE}/configmaps/demo-config"]
    assert "StandardAuthorizer" in config["data"]["node.properties"]
    assert isinstance(env.nodes.pod_clients[-1], TlsPodClient)
    writes = env.api.writes
    restarted = next(
        i for i, (verb, path) in enumerate(writes) if verb == "delete" and "/pods/" in path
    )
    made = [i for i, (_, path) in enumerate(writes) if path.endswith("-1-tls")][:3]
    assert len(made) == 3
    assert max(made) < restarted, "each has a certificate before the first one restarts"


@pytest.mark.parametrize("mode", ["Managed", "Migrating"])
@pytest.mark.parametrize("edited", [None, "Plain"])
def test_edited_stage_reverts_no_member(edited: str | None, mode: str) -> None:
    env = Env()
    env.ask(mode)
    env.rest()
    reached = env.nodes.seen[-1]
    assert reached is (CLOSED if mode == "Managed" else DIALLING)
    notes = env.api.objects[IDENTITY]["metadata"]["annotations"]
    del notes[names.ANNOTATION_TLS_STAGE]
    if edited is not None:
        notes[names.ANNOTATION_TLS_STAGE] = edited
    env.api.writes.clear()
    env.rest()
    assert env.nodes.seen[-1] is reached
    assert not [path for _, path in env.api.writes if "/statefulsets/" in path]
    assert env.api.status["tls"]["stage"] == reached.value


@pytest.mark.long
def test_migrating_mode_stops_before_the_last_stage_and_can_be_reverted() -> None:
    env = Env()
    env.ask("Migrating")
    env.rest()
    assert env.nodes.seen == [PLAIN, ACCEPTING, DIALLING]
    assert env.api.status["tls"]["stage"] == "Dialling"
    assert "spec.tls.mode: Managed, which disables" in env.message()
    assert "To go back set spec.tls.mode to Disabled" in env.message()
    assert env.nodes.pod_clients == [], "called over TLS while pods of both stages run"
    env.ask("Disabled")
    env.rest()
    assert env.nodes.seen == [PLAIN, ACCEPTING, DIALLING, ACCEPTING, PLAIN]
    assert env.message().startswith("Disabled")
    env.ask("Managed")
    env.rest()
    assert env.nodes.seen[-1] is CLOSED


@pytest.mark.long
def test_spec_without_tls_mode_keeps_the_stage() -> None:
    env = Env()
    env.ask("Migrating")
    env.rest()
    env.ask(None)
    env.rest()
    assert env.stage == "Dialling"
    assert "spec.tls.mode is not set" in env.message()


def test_ports_stay_open_for_clear_text_brokers() -> None:
    env = Env()
    env.nodes.clear_text = frozenset({"10.9.9.9"})
    env.ask("Managed")
    env.rest()
    assert env.stage == "Dialling"
    assert "10.9.9.9" in env.message()
    assert env.api.status["plan"]["step"] == "Wait"
    env.nodes.clear_text = frozenset()
    env.rest()
    assert env.stage == "Closed"


def test_member_that_fails_with_certificates_stops_the_migration_and_it_can_be_reverted() -> None:
    """Such as one of an image that does not know the key."""
    env = Env()
    env.nodes.broken = {1, 2, 3}
    env.ask("Managed")
    env.rest()
    stages = [env.nodes.stage(each) for each in (1, 2, 3)]
    assert stages.count(ACCEPTING) == 1, "the other members do not continue"
    assert "have not restarted for this stage yet" in env.message()
    env.ask("Disabled")
    env.rest()
    assert [env.nodes.stage(each) for each in (1, 2, 3)] == [PLAIN] * 3


@pytest.mark.long
def test_tls_only_cannot_be_reverted() -> None:
    env = Env()
    env.ask("Managed")
    env.rest()
    env.ask("Disabled")
    env.rest()
    assert env.stage == "Closed"
    assert "going back is not supported" in env.api.condition("SpecInvalid")["message"]
    assert [env.nodes.stage(each) for each in (1, 2, 3)] == [CLOSED] * 3


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(ACCEPTING, marks=pytest.mark.long),
        DIALLING,
        pytest.param(CLOSED, marks=pytest.mark.long),
    ],
)
def test_deleted_identity_does_not_lose_the_migration_stage(stage: TlsStage) -> None:
    env = Env()
    env.ask("Managed")
    operator = env.operator()
    for _ in range(MOST_LOOKS):
        env.look(operator)
        if env.stage == stage.value:
            break
    for _ in range(3):  # some of the members have come that far
        env.look(operator)
    del env.api.objects[IDENTITY]
    env.rest()
    assert [env.nodes.stage(each) for each in (1, 2, 3)] == [CLOSED] * 3


def killed_after(writes: int, *modes: str) -> None:
    """The operator is killed after so many writes, again and again, and goes through these modes all the same."""
    env = Env()
    for mode in modes:
        env.ask(mode)
        for _ in range(60):
            env.left = writes
            try:
                env.rest()
                break
            except Killed:
                env.nodes.kubelet()
                env.complaints += env.nodes.complaints()
        env.left = float("inf")
        env.rest()
    assert env.complaints == []
    assert [env.nodes.stage(each) for each in (1, 2, 3)] == [CLOSED] * 3


def test_repeatedly_killed_operator_completes_the_migration() -> None:
    killed_after(11, "Managed")


@pytest.mark.long
@pytest.mark.parametrize("writes", range(1, 30))
def test_operator_killed_at_any_point_migrates_forth_back_and_forth(writes: int) -> None:
    killed_after(writes, "Migrating", "Disabled", "Managed")
