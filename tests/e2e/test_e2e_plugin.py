"""`kubectl quorum` as users run it: found by the real kubectl on PATH, with containers behind `exec` and `logs`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.testbed import programs

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def kubectl(env: KindEnv, *arguments: str) -> str:
    """Its output. On PATH are the programs of the wheel, kubectl, and those of the system."""
    folders = [Path(sys.executable).parent, programs.kubectl().parent]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if key != "KUBECTL"}
    done = subprocess.run(
        ["kubectl", *arguments, "-n", env.namespace, "--kubeconfig", str(env.cluster.kubeconfig)],
        env={**kept, "PATH": path, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.requirement("OP-10")
def test_kubectl_finds_the_plugin_and_shows_logs_and_transfers_in_containers(env: KindEnv) -> None:
    quorum = env.create(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    shown = kubectl(env, "quorum", "status", "q")
    assert "Phase       Ready" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    members = kubectl(env, "quorum", "members", "q")
    assert all(uuid in members for _, uuid in before.keys)

    voters = [voter.id for voter in before.voters]
    pods = {node_id: quorum.pod_of(node_id) for node_id in voters}
    every = kubectl(env, "quorum", "logs", "q", "--tail", "3")
    assert all(f"[pod/{pod}/node]" in every for pod in pods.values())
    one = kubectl(env, "quorum", "logs", "q", "--id", str(before.leader_id), "--tail", "1000")
    assert f"leader in epoch {before.leader_epoch}" in one

    successor = next(node_id for node_id in voters if node_id != before.leader_id)
    answer = kubectl(env, "quorum", "transfer", "q", "--to", str(successor))
    assert "handed over" in answer
    quorum.wait_healthy(
        3,
        timeout_s=MOVE_TIMEOUT_S,
        also=lambda now: now.leader_id == successor,
        what="the successor leads",
    )
