"""cert-manager issues (`spec.tls.issuerRef`), with the real operator, a real API server and real nodes, while clients write.

cert-manager itself is replaced: by its definition from the documented fields, and a controller that signs each request.
"""

import time

import pytest

from support.envtest.environment import Env
from support.envtest.issuer_setup import ISSUED, allow_certificates, trust
from support.envtest.issuing_controller import IssuingController
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env.waiting import wait_for
from support.modelled_issuer import ModelledIssuer

pytestmark = [pytest.mark.envtest, pytest.mark.long, pytest.mark.timeout(600)]


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


def blocked(quorum: ApiServerQuorum) -> str:
    return str((quorum.condition("TlsBlocked") or {}).get("reason"))


@pytest.mark.requirement("OP-11")
def test_cert_manager_issuer_is_delayed_issues_renews_fails_and_changes_its_authority_under_load(
    env: Env,
) -> None:
    first, second = (ModelledIssuer(each, time.time(), below_a_root=True) for each in "AB")
    trust(env, first)
    allow_certificates(env)
    manager = IssuingController(env.api, env.namespace, first)
    manager.install()
    manager.answer = "waits"
    operator, _ = env.add_operator()
    operator.start()
    with manager:
        quorum = env.apply(3, tls=ISSUED)
        wait_for(
            "a late issuer is named",
            lambda: blocked(quorum) == "IssuerLate",
            timeout_s=MOVE_TIMEOUT_S + 90.0,
            seen=quorum.summary,
        )
        manager.answer = "issues"
        quorum.wait_ready(3, timeout_s=120)
        assert trusted(quorum) == [{"CN=A"}] * 3
        load, begun = env.start_load(quorum), quorum.starts()

        def renewed(before: dict[str, str]) -> None:
            wait_for(
                "new certificates",
                lambda: not set(before.values()) & set(certificates(quorum).values()),
                timeout_s=MOVE_TIMEOUT_S + 150.0,
                seen=quorum.summary,
            )

        before = certificates(quorum)
        manager.renew()
        renewed(before)
        before = certificates(quorum)
        manager.issuer = second
        trust(env, first, second)
        manager.renew()
        renewed(before)
        trust(env, second)
        wait_for(
            "the first authority is forgotten",
            lambda: trusted(quorum) == [{"CN=B"}] * 3,
            timeout_s=MOVE_TIMEOUT_S + 150.0,
            seen=quorum.summary,
        )
        assert quorum.starts() == begun, "a pod was restarted"
        env.prove_nothing_lost(load)
