"""Stages of the migration from clear text to TLS.

One stage is recorded at a time, and every member is restarted for it.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from quorum_operator.tls_crd import TlsMode

DEFAULT_MODE = TlsMode.MANAGED
"""Mode of new quorums whose spec sets none."""

MIGRATION = "quorum.tls.migration"
"""The property with the stage of a member that accepts TLS and clear text."""


class TlsStage(StrEnum):
    """Stages of the members. Members of consecutive stages can communicate."""

    PLAIN = "Plain"
    """Clear text only."""
    ACCEPTING = "Accepting"
    """Accept TLS and clear text, connect in clear text."""
    DIALLING = "Dialling"
    """Accept both, connect by TLS."""
    CLOSED = "Closed"
    """TLS only. Going back is impossible."""

    @property
    def takes_both(self) -> bool:
        """Whether TLS and clear text are accepted."""
        return self in MIGRATION_VALUES


MIGRATION_VALUES: Mapping[TlsStage, str] = {TlsStage.ACCEPTING: "accept", TlsStage.DIALLING: "dial"}
"""Value of MIGRATION at each stage."""


def first_stage(mode: TlsMode | None) -> TlsStage:
    """Return the TLS stage of a new quorum. `mode`: the mode in its spec. There is nothing to migrate. All callers
    without an identity use this rule.
    """
    return TlsStage.PLAIN if (mode or DEFAULT_MODE) is TlsMode.DISABLED else TlsStage.CLOSED


def stage_of_process(overrides: Mapping[str, str]) -> TlsStage:
    """Stage of a process with these properties."""
    for stage, value in MIGRATION_VALUES.items():
        if overrides.get(MIGRATION) == value:
            return stage
    secured = overrides.get("admin.listener", "").startswith("https://")
    return TlsStage.CLOSED if secured else TlsStage.PLAIN


def stage_left(stages: Iterable[TlsStage]) -> TlsStage:
    """The stage to continue from if the recorded one is lost, derived from the members' stages. All members can
    communicate with it, in either direction.
    """
    found = set(stages)
    if TlsStage.CLOSED in found:
        return TlsStage.CLOSED
    if found == {TlsStage.DIALLING}:
        return TlsStage.DIALLING
    return TlsStage.ACCEPTING if found - {TlsStage.PLAIN} else TlsStage.PLAIN
