"""Reads the admin token of a quorum from the API server. It is never kept longer than one step."""

import base64
from typing import Any

from quorum_operator.desired.names import TOKEN_KEY, Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi


async def read_token(api: KubeApi, owner: Owner) -> str | None:
    """Read the token; None if the Secret is missing or contains no usable token."""
    path = paths.namespaced("secrets", owner.namespace, owner.token_secret)
    found = await api.get(path)
    if found is None:
        return None
    return token_of(found)


def token_of(secret: dict[str, Any]) -> str | None:
    """The first usable token in a Secret, which members accept like those in its other lines.

    None if it is missing, or no line can be sent in an HTTP header (control and non-ASCII characters).
    """
    encoded = (secret.get("data") or {}).get(TOKEN_KEY)
    try:
        content = base64.b64decode(encoded or "")
    except ValueError:
        return None
    lines = (line.strip().decode(errors="replace") for line in content.splitlines())
    return next((line for line in lines if line and line.isascii() and line.isprintable()), None)


def has_shape(secret: dict[str, Any] | None, owner: Owner) -> bool:
    """Whether the Secret exists with a token and belongs to the resource."""
    if secret is None:
        return False
    meta = secret["metadata"]
    if meta.get("uid") is None:
        return True  # It was not read from an API server.
    mine = any(each.get("uid") == owner.uid for each in meta.get("ownerReferences") or ())
    labelled = owner.labels.items() <= (meta.get("labels") or {}).items()
    return mine and labelled and token_of(secret) is not None
