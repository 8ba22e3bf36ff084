"""How far a quorum is on its way from clear text to TLS. One stage is written down at a time, and every member is brought to it."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from quorum_operator.tls_crd import TlsMode

DEFAULT_MODE = TlsMode.MANAGED
"""Of new quorums whose spec says nothing."""

MIGRATION = "quorum.tls.migration"
"""The property that a member is told its stage by, while it takes both."""


class TlsStage(StrEnum):
    """What members are told. Those of two stages that follow each other understand each other."""

    PLAIN = "Plain"
    """Clear text alone."""
    ACCEPTING = "Accepting"
    """They take TLS beside clear text, and dial each other in clear text."""
    DIALLING = "Dialling"
    """They take both, and dial each other by TLS."""
    CLOSED = "Closed"
    """TLS alone. There is no way back."""

    @property
    def takes_both(self) -> bool:
        """Clear text beside TLS."""
        return self in TOLD


TOLD: Mapping[TlsStage, str] = {TlsStage.ACCEPTING: "accept", TlsStage.DIALLING: "dial"}
"""What a node is told at a stage, as MIGRATION has it."""


def first_stage(asked: TlsMode | None) -> TlsStage:
    """Of a quorum that is formed now, by what its spec says: there is nothing to migrate. It is the one rule for whoever has no
    identity to go by."""
    return TlsStage.PLAIN if (asked or DEFAULT_MODE) is TlsMode.DISABLED else TlsStage.CLOSED


def stage_of_process(overrides: Mapping[str, str]) -> TlsStage:
    """Of a process that is started with these properties."""
    for stage, told in TOLD.items():
        if overrides.get(MIGRATION) == told:
            return stage
    secured = overrides.get("admin.listener", "").startswith("https://")
    return TlsStage.CLOSED if secured else TlsStage.PLAIN


def stage_left(stages: Iterable[TlsStage]) -> TlsStage:
    """The stage to go on from where nobody knows any more which one was written down, by those of the members.

    All of them understand it, whichever way they were on.
    """
    found = set(stages)
    if TlsStage.CLOSED in found:
        return TlsStage.CLOSED
    if found == {TlsStage.DIALLING}:
        return TlsStage.DIALLING
    return TlsStage.ACCEPTING if found - {TlsStage.PLAIN} else TlsStage.PLAIN
