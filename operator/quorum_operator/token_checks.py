"""Checks which pods accept the current admin token.

Each pod is checked once per token. A node of this version reads a changed token itself, as soon as the kubelet has
updated it; a node of the previous version reads it only at start and has to be restarted.
"""

import asyncio
import hashlib
from dataclasses import replace

from quorum_operator.planner.observed import Incarnation
from quorum_operator.quorum_client import QuorumClient

MOST_PODS = 10_000


class TokenChecks:
    """Checks of all pods, by UID. After a restart of the operator each pod is checked once more."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}
        """Digest of the accepted token, by pod UID."""
        self._refused: dict[str, tuple[str, float]] = {}
        """Digest of the rejected token and the time, by pod UID."""

    async def check(
        self,
        nodes: QuorumClient,
        incarnations: tuple[Incarnation, ...],
        token: str | None,
        now: float,
    ) -> tuple[Incarnation, ...]:
        """Add since when each pod rejects the token. Without a token no pod is called, and earlier results are used."""
        digest = hashlib.sha256((token or "").encode()).hexdigest()

        async def checked(each: Incarnation) -> Incarnation:
            pod = each.pod
            if pod is None or pod.ip is None or not pod.running or each.report is None:
                return each
            if token is not None and self._taken.get(pod.uid) != digest:
                took = await nodes.takes_token(pod.ip, token)
                if took is not None:
                    self._note(pod.uid, digest, took, now)
            known = self._refused.get(pod.uid)
            since = known[1] if known is not None else None
            return replace(each, pod=replace(pod, token_refused_since=since))

        return tuple(await asyncio.gather(*map(checked, incarnations)))

    def _note(self, uid: str, digest: str, took: bool, now: float) -> None:
        if len(self._taken) > MOST_PODS:
            self._taken.clear()  # Most of them are deleted pods; the others are checked once more.
        if took:
            self._taken[uid] = digest
            self._refused.pop(uid, None)
        elif self._refused.get(uid, ("", 0.0))[0] != digest:
            self._refused[uid] = digest, now
