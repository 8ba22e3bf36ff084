"""Reasons in the API server's error messages, with advice for each."""

SEALED = "Sealed"
"""Reason: the contents of an object with `immutable: true` have to change."""

_WHAT_TO_DO = {
    "QuotaExceeded": (
        "Raise the ResourceQuota of the namespace, or request less in the spec. What must be specified belongs into "
        "spec.resources, for backups into spec.backup.resources."
    ),
    "AdmissionDenied": "Change the policy that rejects it, or the spec so that it complies.",
    "Invalid": "Correct the spec: the API server rejects the object made from it.",
    SEALED: (
        "Another client made it immutable (`immutable: true`): delete it, and the operator creates it again with the right "
        "contents."
    ),
    "Forbidden": "Give the operator's service account the right to do so (docs/how-to/rights.md lists all of them).",
    "Unauthorized": "The API server does not accept the operator's credentials: check its service account.",
    "AlreadyExists": (
        "An object of that name exists and is not owned by this resource: delete or rename it, or use another name."
    ),
    "ServerError": "Nothing was changed: see the API server and its admission webhooks.",
}


def reason_in(message: str) -> str | None:
    """QuotaExceeded, AdmissionDenied or Sealed if the message shows it; else None."""
    text = message.lower()
    if "when `immutable` is set" in text:
        return SEALED
    if "exceeded quota" in text or "failed quota" in text:
        return "QuotaExceeded"
    if "webhook" in text or "admissionpolicy" in text or "denied the request" in text:
        return "AdmissionDenied"
    return None


def advice_on(reason: str) -> str:
    """Advice for a reason of `Refused`; empty if there is none."""
    return _WHAT_TO_DO.get(reason, "")
