"""The Secret with the admin API's token. Create-only: a token in use is never replaced."""

from typing import Any

from quorum_operator.desired.names import TOKEN_KEY, Owner, metadata


def build(owner: Owner, token: str) -> dict[str, Any]:
    """The Secret; the caller generates `token`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(owner, owner.token_secret),
        "type": "Opaque",
        "stringData": {TOKEN_KEY: token},
    }
