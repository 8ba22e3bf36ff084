"""`kubectl quorum` on a real API server, with real members behind the resource."""

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.envtest.environment import Env, SharedQuorum
from support.envtest.kube_api import Json
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind import ControlPlane
from support.kind_env import kube
from support.kind_env.testbed import programs
from support.kind_env.waiting import wait_for

pytestmark = pytest.mark.envtest

_PLUGIN = Path(sys.executable).with_name("kubectl-quorum")
_OF_AN_EVENT = ("type", "reason", "message", "firstTimestamp", "lastTimestamp", "count")
_EXEC = """#!{python}
# kubectl, but for `exec`: no container runs here, so the command runs beside the pod's address instead.
import os, sys
given = sys.argv[1:]
if given[0] == "exec":
    at = given.index("--")
    pod = next(each for each in given[1:] if each.startswith("q-"))
    command = given[at + 1 :]
    assert command[0] == "quorumctl", command
    command[command.index("--token-file") + 1] = {token!r}
    address = open(os.path.join({folder!r}, pod)).read()
    os.execv({quorumctl!r}, ["quorumctl", "--admin", f"http://{{address}}:8080", *command[1:]])
os.execv({kubectl!r}, ["kubectl", *given])
"""


class Terminal:
    """Runs the plugin as a user does."""

    def __init__(self, kubeconfig: Path, namespace: str, kubectl: Path) -> None:
        self._options = [f"--kubeconfig={kubeconfig}", "-n", namespace]
        self._environment = {**os.environ, "KUBECTL": str(kubectl), "COLUMNS": "80"}

    def run(self, *arguments: str, code: int = 0) -> str:
        command = [str(_PLUGIN), *arguments, *self._options]
        done = subprocess.run(
            command,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    def wait_shown(self, phase: str) -> str:
        """What the program prints about `q` in this phase. Raises NotInTime."""

        def probe() -> str | None:
            output = self.run("status", "q")
            return output if f"Phase       {phase}" in output else None

        return wait_for(f"{phase} is shown", probe, timeout_s=MOVE_TIMEOUT_S)

    def on_screen(self, *arguments: str) -> str:
        """What the program writes to a terminal of 24 lines and 80 columns."""
        leader, follower = pty.openpty()
        termios.tcsetwinsize(follower, (24, 80))
        environment = {key: each for key, each in self._environment.items() if key != "COLUMNS"}
        command = [str(_PLUGIN), *arguments, *self._options]
        with subprocess.Popen(
            command, env=environment, stdin=follower, stdout=follower, stderr=follower
        ) as process:
            os.close(follower)
            written = b"".join(_chunks(leader))
        os.close(leader)
        assert process.returncode == 0, written.decode()
        return written.decode().replace("\r\n", "\n")


def _chunks(terminal: int) -> Iterator[bytes]:
    """All that is written to a terminal until its last user closes it, which Linux reports as EIO."""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 4096):
            yield chunk


def fits(text: str) -> bool:
    return all(len(line) <= 80 for line in text.splitlines())


def pretending_exec(folder: Path, quorum: ApiServerQuorum) -> Path:
    """A kubectl whose `exec` needs no container."""
    (folder / "token").write_text(quorum.token())
    for pod in quorum.pods():
        (folder / pod["metadata"]["name"]).write_text(pod["status"]["podIP"])
    text = _EXEC.format(
        python=sys.executable,
        token=str(folder / "token"),
        folder=str(folder),
        quorumctl=str(_PLUGIN.with_name("quorumctl")),
        kubectl=str(programs.kubectl()),
    )
    path = folder / "kubectl"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.requirement("OP-10")
@pytest.mark.long
def test_kubectl_plugin_shows_pauses_transfers_and_replaces(
    shared_quorum: SharedQuorum, api_server: ControlPlane, tmp_path: Path
) -> None:
    quorum, env = shared_quorum.quorum, shared_quorum.env
    before = quorum.wait_ready(3)
    kubectl = pretending_exec(tmp_path, quorum)
    terminal = Terminal(api_server.kubeconfig, env.namespace, kubectl)
    shown = terminal.run("status", "q")
    assert fits(shown)
    assert "Phase       Ready" in shown
    assert f"Leader      {before.leader_id} in epoch" in shown
    members = terminal.run("members", "q")
    assert all(uuid in members for _, uuid in before.keys)
    assert "no member 9" in terminal.run("replace", "q", "9", code=1)
    assert "NotFound" in terminal.run("status", "nobody", code=1)

    assert "is paused" in terminal.run("pause", "q")
    wait_for("it is paused", lambda: "Paused: " in terminal.run("status", "q"), timeout_s=30)
    assert "already paused" in terminal.run("pause", "q")
    assert "is resumed" in terminal.run("resume", "q")
    quorum.wait_ready(3)

    successor = next(each.id for each in before.voters if each.id != before.leader_id)
    assert "handed over" in terminal.run("transfer", "q", "--to", str(successor))
    quorum.wait_healthy(
        3, timeout_s=30, also=lambda now: now.leader_id == successor, what="the successor leads"
    )
    output = terminal.run("watch", "q", "--count", "1")
    assert "Ready" in output
    assert terminal.run("replace", "q", str(before.leader_id)).startswith("member")
    after = quorum.wait_healthy(
        3,
        timeout_s=MOVE_TIMEOUT_S,
        also=lambda now: before.leader_id not in {each.id for each in now.voters},
        what="the member is replaced",
    )
    assert len(after.keys & before.keys) == 2
    assert quorum.resource()["spec"]["retire"] == [before.leader_id]


class Recorder:
    """The last resource and its events of each phase; `folder`: where they are kept, if anywhere."""

    def __init__(self, kubeconfig: Path, quorum: ApiServerQuorum) -> None:
        self.seen: dict[str, Json] = {}
        self._kubeconfig, self._quorum = kubeconfig, quorum
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """May be repeated."""
        self._ended.clear()
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        client = kube.Kube(self._kubeconfig)
        try:
            while not self._ended.wait(0.2):
                found = client.get(self._quorum.path)
                phase = (found.get("status") or {}).get("phase")
                behind = (found.get("status") or {}).get("observedGeneration")
                if phase and behind == found["metadata"]["generation"]:
                    events = client.list(kube.core(self._quorum.namespace, "events"))
                    own = [e for e in events if e["involvedObject"]["kind"] == "MetadataQuorum"]
                    found["metadata"].pop("managedFields", None)
                    kept = [{part: e.get(part) for part in _OF_AN_EVENT} for e in own]
                    self.seen[phase] = {"resource": found, "events": kept}
        finally:
            client.close()

    def keep(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for phase, documents in self.seen.items():
            path = folder / f"{phase}.json"
            path.write_text(json.dumps(documents, indent=1, sort_keys=True) + "\n")


_STATES = ("Forming", "Ready", "Repairing", "QuorumLost", "Recovering", "Paused")


@contextmanager
def held_pods(quorum: ApiServerQuorum, *names: str) -> Iterator[None]:
    """Pods of these names get no host, so that the phase in which the operator waits for them lasts."""
    kubelet = quorum.cluster.kubelet

    def hold(held: bool) -> None:
        for name in names:
            kubelet.hold(quorum.namespace, name, held=held)

    quorum.cluster.run(lambda: hold(True))
    try:
        yield
    finally:
        quorum.cluster.run(lambda: hold(False))


_FIRST = [f"q-{number}-1-0" for number in (2, 3)]
_SUCCESSORS = [f"q-{node_id}-{number}-0" for node_id in range(1, 10) for number in range(2, 10)]


@pytest.mark.requirement("OP-10")
@pytest.mark.long
@pytest.mark.timeout(600)
def test_plugin_output_of_every_quorum_state_fits_80_columns(
    env: Env, operator: OperatorProcess, api_server: ControlPlane
) -> None:
    """RECORD_QUORUM_STATES=FOLDER keeps the resources, for the unit tests of the pages."""
    quorum = ApiServerQuorum(env.api, env.cluster, env.namespace, "q")
    recorder = Recorder(api_server.kubeconfig, quorum)
    terminal = Terminal(api_server.kubeconfig, env.namespace, programs.kubectl())
    shown: dict[str, str] = {}
    with held_pods(quorum, *_FIRST):
        env.apply(3, disks=True, repair={"debounceSeconds": 0})
        with recorder.running():
            shown["Forming"] = terminal.wait_shown("Forming")
    with recorder.running():
        before = quorum.wait_ready(3, timeout_s=120)
        shown["Ready"] = terminal.wait_shown("Ready")
        check_watch(terminal)
        with held_pods(quorum, *_SUCCESSORS):
            failed = quorum.fail_disk(before.voters[0])
            shown["Repairing"] = terminal.wait_shown("Repairing")
        quorum.wait_replaced(failed, 3)
        lose_majority(quorum, operator)
        shown["QuorumLost"] = terminal.wait_shown("QuorumLost")
        offer = wait_for(
            "an offer",
            lambda: (quorum.status().get("quorumLoss") or {}).get("offer"),
            timeout_s=60,
        )
        assert f"endOffset: {offer['endOffset']}" in terminal.run("status", "q")
        with held_pods(quorum, *_SUCCESSORS):
            quorum.patch({"recovery": offer})
            shown["Recovering"] = terminal.wait_shown("Recovering")
        quorum.wait_ready(3, timeout_s=2 * MOVE_TIMEOUT_S)
        terminal.run("pause", "q")
        shown["Paused"] = terminal.wait_shown("Paused")
        wait_for("all is recorded", lambda: set(_STATES) <= set(recorder.seen), timeout_s=10)
    folder = os.environ.get("RECORD_QUORUM_STATES")
    if folder:
        recorder.keep(Path(folder))
    assert shown.keys() == set(_STATES)
    for phase, output in shown.items():
        assert fits(output), (phase, output)


def check_watch(terminal: Terminal) -> None:
    """Each look clears the screen, and fits on it."""
    looks = terminal.on_screen("watch", "q", "--count", "2", "--interval", "0.1").split(
        "\x1b[H\x1b[J"
    )
    assert looks[0] == ""
    assert len(looks) == 3
    for look in looks[1:]:
        assert "Phase       Ready" in look
        assert fits(look), look
        assert len(look.splitlines()) <= 24


def lose_majority(quorum: ApiServerQuorum, operator: OperatorProcess) -> None:
    """Two of three disks fail before the operator sees the first."""
    before = quorum.wait_ready(3)
    operator.kill()
    victims = [quorum.fail_disk(each) for each in before.voters[:2]]
    wait_for(
        "both processes have ended",
        lambda: all(quorum.exit_code(each.pod) == 74 for each in victims),
        timeout_s=60,
    )
    operator.start()
