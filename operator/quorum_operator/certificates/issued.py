"""Certificates from cert-manager: the requested objects and their state. Pure.

For each holder there is one `Certificate` (cert-manager.io/v1), which cert-manager writes into a Secret of the same
name. Members never read that Secret: the operator copies the key pair into the holder's own Secret, together with the
bundle, once all members trust it. The `ca.crt` written by cert-manager is never trusted.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates import checks, documents, lifetimes
from quorum_operator.certificates.checks import Problem
from quorum_operator.certificates.facts import Issued
from quorum_operator.certificates.holders import MOST_CN_LENGTH, Holder
from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.pem import Read, Unreadable, anchor_of, read_all
from quorum_operator.desired.names import Owner, metadata
from quorum_operator.planner.certificates_seen import Trouble
from quorum_operator.tls_crd import IssuerRef

Object = dict[str, Any]

GRACE_S = 60.0
"""Time after which an unanswered request is reported as late."""


@dataclass(frozen=True, slots=True)
class IssuedObjects:
    """The objects of one holder as returned by the API server, None for missing ones. `refused`: why the Certificate can't
    be read; empty if it can. `denied`: the operator has no right to read it.
    """

    certificate: Object | None = None
    secret: Object | None = None
    refused: str = ""
    denied: bool = False


def request_name(owner: Owner, holder: Holder) -> str:
    """Name of the Certificate and of the Secret that cert-manager writes."""
    return f"{documents.leaf_name(owner, holder).removesuffix('-tls')}-issued"


def request(owner: Owner, holder: Holder, issuer: IssuerRef) -> Object:
    """The Certificate for a holder."""
    name = request_name(owner, holder)
    life_s = lifetimes.MEMBER_S if holder.role is Role.MEMBER else lifetimes.CLIENT_S
    spec: Object = {
        "secretName": name,
        "commonName": holder.name[-MOST_CN_LENGTH:],
        "subject": {
            "organizations": [f"{owner.name}.{owner.namespace}"],
            "organizationalUnits": [holder.role.value],
        },
        "uris": [holder.identity(owner).uri()],
        "usages": ["digital signature", "client auth", "server auth"],
        # A format that Java and OpenSSL read. Each certificate gets a new key.
        "privateKey": {
            "algorithm": "ECDSA",
            "size": 256,
            "encoding": "PKCS8",
            "rotationPolicy": "Always",
        },
        "duration": _hours(life_s),
        "renewBefore": _hours(life_s / 3),
        "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
    }
    if holder.dns_names:
        spec["dnsNames"] = list(holder.dns_names)
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": metadata(owner, name),
        "spec": spec,
    }


def issued(
    owner: Owner,
    holder: Holder,
    issuer: IssuerRef,
    found: IssuedObjects,
    trusted: tuple[Read, ...],
    now: float,
) -> Issued:
    """Return the facts about the issued certificate of a holder."""
    wanted = request(owner, holder, issuer)
    name = wanted["metadata"]["name"]
    there = found.certificate
    spec = (there or {}).get("spec", {})
    version = "" if there is None else documents.version_of(there)
    as_wanted = there is not None and all(spec.get(k) == v for k, v in wanted["spec"].items())
    made = Issued(holder.name, wanted, version, as_wanted)
    what = f"Certificate {owner.namespace}/{name}"
    if found.refused:
        advice = "Install the chart with certManager.enabled=true"
        if not found.denied:
            advice = f"Check the resource definition and the pods of cert-manager. {checks.STAYS}"
        text = f"{what} can't be read: {found.refused.rstrip('. ')}. {advice}"
        reason = "IssuerForbidden" if found.denied else "IssuerFailed"
        return replace(_with(made, text, Trouble(reason, text)), is_readable=False)
    data = None if found.secret is None else checks.decoded(found.secret.get("data"))
    checked = None
    if data is not None:
        mended = f"See `kubectl describe certificate {name}`. {checks.STAYS}"
        checked = checks.check_leaf(name, data, owner, holder, trusted, now, mended)
    late = _late(what, name, there, now)
    if isinstance(checked, Read):
        chain = read_all(data[checks.CERTIFICATE]) if data is not None else ()
        anchor = anchor_of(chain, trusted)
        return Issued(
            *(holder.name, wanted, version, as_wanted, chain),
            anchor.fingerprint if anchor is not None else "",
            trouble=late if late is not None and late.reason == "IssuerFailed" else None,
        )
    if isinstance(checked, Problem):
        return _with(made, checked.message, Trouble("IssuedUnusable", checked.message))
    return _with(made, late.message if late is not None else f"{what} is being issued", late)


def pair_of(found: IssuedObjects) -> Pair:
    """The issued key pair with its chain. Raises Unreadable."""
    data = checks.decoded((found.secret or {}).get("data"))
    leaf, *intermediates = read_all(data.get(checks.CERTIFICATE, b"")) or (None,)
    if leaf is None:
        raise Unreadable("no certificate in it")
    return Pair(leaf, data[checks.KEY].decode(), tuple(intermediates))


def _with(made: Issued, waits: str, trouble: Trouble | None) -> Issued:
    if trouble is not None and trouble.reason == "IssuerLate" and not waits:
        waits = trouble.message
    return Issued(
        made.holder, made.request, made.version, made.is_as_wanted, (), "", waits, trouble
    )


def _late(what: str, name: str, there: Object | None, now: float) -> Trouble | None:
    """Why cert-manager has not issued it, if it is overdue."""
    if there is None:
        return None
    status = there.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or []}
    ready, issuing = conditions.get("Ready", {}), conditions.get("Issuing", {})
    if ready.get("status") == "True" and issuing.get("status") != "False":
        return None
    see = f"See `kubectl describe certificate {name}`. {checks.STAYS}"
    if status.get("lastFailureTime") or issuing.get("reason") == "Failed":
        why = issuing if issuing.get("message") else ready
        detail = f"{why.get('reason', 'Failed')}: {why.get('message', 'no message')}"
        return Trouble("IssuerFailed", f"{what}: the issuer has failed ({detail}). {see}")
    since = _time(ready.get("lastTransitionTime") or there["metadata"].get("creationTimestamp"))
    if since is None or now - since < GRACE_S:
        return None
    detail = f"{ready.get('reason', 'cert-manager')}: {ready.get('message', 'has not answered')}"
    text = f"{what} has not been issued; requested at {checks.time_text(since)} ({detail}). {see}"
    return Trouble("IssuerLate", text)


def _time(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _hours(seconds: float) -> str:
    """A duration as the API server writes Go durations."""
    return f"{int(seconds // 3600)}h0m0s"
