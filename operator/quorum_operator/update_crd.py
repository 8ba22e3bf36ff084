"""`spec.update` and `status.update` of a MetadataQuorum: how a new image or configuration reaches the members."""

from pydantic import ConfigDict, Field

from quorum_operator.crd_model import CrdModel, cel_rule

_DAY_MINUTES = 1440
_WEEK_S = 604_800
_NUMBERS = "[0-9*,/-]+"
_NAMES = "[0-9A-Za-z*,/-]+"


class UpdateWindowSpec(CrdModel):
    """A maintenance window: open for so long from each time that the schedule names."""

    model_config = ConfigDict(
        json_schema_extra=cel_rule(
            f"self.start.matches('^{_NUMBERS}( +{_NUMBERS}){{2}}( +{_NAMES}){{2}}$')",
            "spec.update.windows[].start must have the five fields of cron: minute, hour, day of month, month and day of week,"
            " such as '0 2 * * sat' for Saturdays at 2:00",
        )
    )

    start: str = Field(
        min_length=9,
        max_length=100,
        description="When it opens, as in cron: '0 2 * * sat' is each Saturday at 2:00.",
    )
    duration_minutes: int = Field(
        ge=1, le=_DAY_MINUTES, description="For how many minutes it is open, a day at most."
    )
    time_zone: str = Field(
        default="UTC",
        min_length=1,
        max_length=64,
        description="Time zone of the start, such as Europe/Berlin.",
    )


class UpdateSpec(CrdModel):
    """How a new image, configuration, resources or pod template reach the members. What is proven is written down, so that a
    failed update goes back to it. Repairs are never held back by anything in here."""

    soak_seconds: int = Field(
        default=0,
        ge=0,
        le=_WEEK_S,
        description="One member, the canary, is updated first, and has to be ready and caught up for so many seconds without a"
        " restart before the others follow. If it fails it goes back to what it ran before. 0: no canary.",
    )
    canary_timeout_seconds: int = Field(
        default=300,
        ge=1,
        le=86_400,
        description="A canary that is not ready and caught up within so many seconds has failed.",
    )
    attempt: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Another number here tries an update again that has failed.",
    )
    paused: bool = Field(
        default=False,
        description="No update begins, and no further member restarts for one. All else goes on, repairs included.",
    )
    windows: list[UpdateWindowSpec] | None = Field(
        default=None,
        json_schema_extra={"maxItems": 16},
        description="Updates, and moves to other storage, begin and restart members within these windows only. Left out: always.",
    )


class UpdateStatus(CrdModel):
    """An update that has not reached all members."""

    canary: str | None = Field(
        default=None, description="StatefulSet of the member that was updated first."
    )
    since: str | None = Field(
        default=None, description="When the canary was chosen, or the update failed."
    )
    failed: str | None = Field(
        default=None, description="Why the canary failed; the members run what they ran before."
    )
    held: str | None = Field(
        default=None, description="Why the update waits: spec.update.paused or windows."
    )
