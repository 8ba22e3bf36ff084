"""Reasons that the API server's words of refusal tell, and what is to be done about each."""

_WHAT_TO_DO = {
    "QuotaExceeded": "Raise the ResourceQuota of the namespace, or lower what the spec asks for.",
    "AdmissionDenied": "Change the policy that refuses it, or the spec so that it complies.",
    "Invalid": "Correct the spec: the API server does not accept what it makes.",
    "Forbidden": "Give the operator's service account the right to do so (see its ClusterRole).",
    "Unauthorized": "The API server does not know the operator's credentials: check its service account.",
    "AlreadyExists": "It is there and not this resource's: delete or rename it, or use another name.",
    "ServerError": "Nothing was changed: see the API server and its admission webhooks.",
}


def reason_in(message: str) -> str | None:
    """QuotaExceeded or AdmissionDenied, where the message says so."""
    said = message.lower()
    if "exceeded quota" in said or "failed quota" in said:
        return "QuotaExceeded"
    if "webhook" in said or "admissionpolicy" in said or "denied the request" in said:
        return "AdmissionDenied"
    return None


def advice_on(reason: str) -> str:
    """What to do about a reason of `Refused`; empty where there is nothing to be said."""
    return _WHAT_TO_DO.get(reason, "")
