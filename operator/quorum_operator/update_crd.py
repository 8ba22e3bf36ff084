"""`spec.update` and `status.update` of a MetadataQuorum: how a new image or configuration reaches the members."""

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, cel_rule

_DAY_MINUTES = 1440
_WEEK_S = 604_800
_NUMBERS = "[0-9*,/-]+"
_NAMES = "[0-9A-Za-z*,/-]+"


class UpdateWindowSpec(CrdModel):
    """A maintenance window: a schedule and a duration."""

    model_config = ConfigDict(
        json_schema_extra=cel_rule(
            f"self.start.matches('^{_NUMBERS}( +{_NUMBERS}){{2}}( +{_NAMES}){{2}}$')",
            "spec.update.windows[].start must have the five fields of cron: minute, hour, day of month, month and day "
            "of week,"
            " such as '0 2 * * sat' for Saturdays at 2:00",
        )
    )

    start: str = Field(
        min_length=9,
        max_length=100,
        description="Start of the window as a cron schedule: '0 2 * * sat' is each Saturday at 2:00.",
    )
    duration_minutes: int = Field(
        ge=1, le=_DAY_MINUTES, description="Length of the window in minutes, at most one day."
    )
    time_zone: str = Field(
        default="UTC",
        min_length=1,
        max_length=64,
        description="Time zone of the start, such as Europe/Berlin.",
    )


class UpdateSpec(CrdModel):
    """How a new image, configuration, resources or pod template are rolled out.

    The previous revision is recorded, so that a failed update can be rolled back. Repairs are never delayed by these
    settings.
    """

    soak_seconds: int = Field(
        default=0,
        ge=0,
        le=_WEEK_S,
        description=(
            "Seconds for which the first updated member, the canary, must stay ready and caught up without a restart "
            "before the other members are updated. If it fails it is rolled back. 0: no canary."
        ),
    )
    canary_timeout_seconds: int = Field(
        default=300,
        ge=1,
        le=86_400,
        description="Seconds within which the canary must become ready and caught up; otherwise it has failed.",
    )
    attempt: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Change this number to retry an update that has failed.",
    )
    paused: bool = Field(
        default=False,
        description=(
            "Suspend updates: no update starts, and no further member restarts for one. Everything else continues, "
            "including repairs."
        ),
    )
    windows: list[UpdateWindowSpec] | None = Field(
        default=None,
        json_schema_extra={"maxItems": 16},
        description=(
            "Maintenance windows: updates and moves to other storage start and restart members only within them. "
            "Default: always."
        ),
    )


class UpdateStatus(CrdModel):
    """An update that has not reached all members."""

    canary: str | None = Field(
        default=None, description="StatefulSet of the member that was updated first."
    )
    since: str | None = Field(
        default=None, description="Time at which the canary was chosen, or the update failed."
    )
    failed: str | None = Field(
        default=None, description="Why the canary failed and was rolled back."
    )
    held: str | None = Field(
        default=None, description="Why the update waits: spec.update.paused or windows."
    )
