"""cert-manager's own controllers issue (`spec.tls.issuerRef`), with the real operator, a real API server and real nodes, while clients write."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.envtest import certificate_issuer
from support.envtest.certificate_issuer import CertManager
from support.envtest.environment import Env
from support.envtest.issuer_setup import ISSUED, allow_certificates, trust
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.generated_certificates import Issued, authority
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.long, pytest.mark.timeout(900)]

_RENEWAL_TIMEOUT_S = MOVE_TIMEOUT_S + 150.0


def authorities(name: str) -> tuple[Issued, Issued]:
    """A root, and an authority below it that signs."""
    begin = datetime.fromtimestamp(time.time(), UTC)
    start, end = begin - timedelta(days=1), begin + timedelta(days=2000)
    root = authority(name, start=start, end=end)
    return root, authority(f"{name} below", issuer=root, start=start, end=end)


def shown(quorum: ApiServerQuorum) -> dict[str, dict[str, object]]:
    """The certificate that each process reports."""
    names = sorted(pod["metadata"]["name"] for pod in quorum.pods())
    return {each: quorum.fetch_from(each, "/v1/node")["tls"] for each in names}


def trusted(quorum: ApiServerQuorum) -> list[set[str]]:
    """Subjects, by process."""
    return [{each["subject"] for each in tls["trusted"]} for tls in shown(quorum).values()]  # type: ignore[attr-defined]


def certificates(quorum: ApiServerQuorum) -> dict[str, str]:
    """Fingerprints, by process."""
    return {name: tls["certificate"]["sha256"] for name, tls in shown(quorum).items()}  # type: ignore[index]


def wait_late(quorum: ApiServerQuorum, why: str) -> None:
    """Until the condition TlsBlocked says that the issuer is late, and why."""

    def is_late() -> bool:
        found = quorum.condition("TlsBlocked") or {}
        return found.get("reason") == "IssuerLate" and why in found["message"]

    wait_for(why, is_late, timeout_s=MOVE_TIMEOUT_S + 90.0, seen=quorum.summary)


def wait_renewed(quorum: ApiServerQuorum, before: dict[str, str]) -> None:
    wait_for(
        "new certificates",
        lambda: not set(before.values()) & set(certificates(quorum).values()),
        timeout_s=_RENEWAL_TIMEOUT_S,
        seen=quorum.summary,
    )


@pytest.mark.requirement("OP-11")
def test_cert_manager_is_late_issues_renews_and_changes_its_authority_under_load(
    env: Env, tmp_path: Path
) -> None:
    (first, below_first), (second, below_second) = authorities("A"), authorities("B")
    certificate_issuer.install_definitions(env.api)
    trust(env, first)
    allow_certificates(env)
    manager = CertManager(env.api, env.cluster.kubeconfig, env.namespace, tmp_path)
    operator, _ = env.add_operator()
    operator.start()
    quorum = env.apply(3, tls=ISSUED)
    wait_late(quorum, "cert-manager: has not answered")
    with manager.running():
        # Its Issuer does not exist yet.
        wait_late(quorum, "DoesNotExist: Issuing certificate as Secret does not exist")
        manager.sign_with(below_first, first)
        quorum.wait_ready(3, timeout_s=180)
        assert trusted(quorum) == [{"CN=A"}] * 3
        load, begun = env.start_load(quorum), quorum.starts()
        before = certificates(quorum)
        manager.renew()
        wait_renewed(quorum, before)
        before = certificates(quorum)
        trust(env, first, second)
        manager.sign_with(below_second, second)
        manager.renew()
        wait_renewed(quorum, before)
        trust(env, second)
        wait_for(
            "the first authority is forgotten",
            lambda: trusted(quorum) == [{"CN=B"}] * 3,
            timeout_s=_RENEWAL_TIMEOUT_S,
            seen=quorum.summary,
        )
        assert quorum.starts() == begun, "a pod was restarted"
        env.prove_nothing_lost(load)
