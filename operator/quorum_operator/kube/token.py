"""Reads the admin token of a quorum, live: it is never kept longer than one step."""

import base64

from quorum_operator.desired.names import TOKEN_KEY, Owner
from quorum_operator.kube import paths
from quorum_operator.kube.client import KubeApi


async def read_token(api: KubeApi, owner: Owner) -> str | None:
    """The token, or None when the Secret or its key is missing."""
    path = paths.namespaced("secrets", owner.namespace, owner.token_secret)
    found = await api.get(path)
    if found is None:
        return None
    encoded = found.get("data", {}).get(TOKEN_KEY)
    return None if encoded is None else base64.b64decode(encoded).decode().strip()
