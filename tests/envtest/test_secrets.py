"""No secret of a quorum is in what its operator writes: logs, metrics, events, and all objects except Secrets.

The secrets are those of a whole run: certificates renewed, a token replaced, a failed disk repaired.
"""

import base64
import json
import resource
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.envtest.environment import Env
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.waiting import wait_for
from support.ports import free_ports

pytestmark = [pytest.mark.envtest, pytest.mark.long, pytest.mark.timeout(600)]

_PUBLIC = frozenset({"ca.crt", "tls.crt", "trusted.pem", "revoked.pem", "crl.pem"})
"""Keys of Secrets whose values are certificates or lists."""
_LEAST = 20
"""Length of the shortest text that is searched: half a line of a key."""


def secrets_of(env: Env) -> dict[str, str]:
    """Each secret text, and where it is kept. Keys are searched by their lines and as a whole."""
    found: dict[str, str] = {}
    for secret in env.api.list(kube.core(env.namespace, "secrets")):
        for key, encoded in (secret.get("data") or {}).items():
            if key in _PUBLIC:
                continue
            place = f"{secret['metadata']['name']}/{key}"
            value = base64.b64decode(encoded)
            lines = value.decode(errors="replace").splitlines()
            secret_lines = [each for each in lines if "-----" not in each]
            for text in (encoded, *secret_lines):
                if len(text) >= _LEAST:
                    found[text] = place
    public = "\n".join(_certificates(env))
    return {text: place for text, place in found.items() if text not in public}


def _certificates(env: Env) -> Iterator[str]:
    for secret in env.api.list(kube.core(env.namespace, "secrets")):
        for key, encoded in (secret.get("data") or {}).items():
            if key in _PUBLIC:
                yield base64.b64decode(encoded).decode()


def outputs(env: Env, log: Path, port: int) -> dict[str, str]:
    """All that the operator has written, and what the API server shows of the namespace."""
    found = {"operator.log": log.read_text(errors="replace")}
    found["/metrics"] = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    places = [
        kube.quorums(env.namespace),
        *(kube.core(env.namespace, each) for each in ("events", "pods", "services", "configmaps")),
        kube.core(env.namespace, "persistentvolumeclaims"),
        kube.apps(env.namespace, "statefulsets"),
        kube.batch(env.namespace, "cronjobs"),
        f"/apis/policy/v1/namespaces/{env.namespace}/poddisruptionbudgets",
        f"/apis/networking.k8s.io/v1/namespaces/{env.namespace}/networkpolicies",
    ]
    for place in places:
        found[place] = json.dumps(env.api.list(place))
    for secret in env.api.list(kube.core(env.namespace, "secrets")):
        found[f"metadata of {secret['metadata']['name']}"] = json.dumps(secret["metadata"])
    return found


def replace_token(quorum: ApiServerQuorum) -> None:
    path = kube.core(quorum.namespace, "secrets", f"{quorum.name}-admin")
    before = quorum.api.get(path)["data"]
    quorum.api.delete(path)
    wait_for(
        "another token",
        lambda: (quorum.api.find(path) or {}).get("data") not in (None, before),
        timeout_s=MOVE_TIMEOUT_S,
    )


def test_no_secret_is_in_logs_metrics_events_and_objects(env: Env) -> None:
    (port,) = free_ports(1)
    operator, _ = env.add_operator(METADATAQUORUM_OPERATOR_LISTEN=f"127.0.0.1:{port}")
    operator.start()
    quorum = env.create(3, disks=True, tls={"mode": "Managed"})
    assert resource.prlimit(operator.process_id, resource.RLIMIT_CORE) in ((1, 1), (0, 0))
    secrets = secrets_of(env)
    places = {place.partition("/")[0] for place in secrets.values()}
    assert {"q-admin", "q-ca-1", "q-1-1-tls"} <= places, places
    replace_token(quorum)
    failed = quorum.fail_disk(quorum.voter(leader=True))
    quorum.wait_replaced(failed, 3)
    secrets |= secrets_of(env)
    for name, text in outputs(env, operator.log_path, port).items():
        shown = {place for secret, place in secrets.items() if secret in text}
        assert not shown, f"{name} contains secrets of {shown}"
