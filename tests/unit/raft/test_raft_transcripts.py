"""The transcripts in tests/scenarios: `REWRITE_TRANSCRIPTS=1 pytest ...` writes what happens now."""

import os
from pathlib import Path

import pytest

from support.raft.transcript import Transcript

SCENARIOS = Path(__file__).parents[2] / "scenarios"
ROWS = {
    "figure-8": ("K595-10",),
    "disruptive-removed-server": ("K650-01", "K595-25"),
    "pre-vote-during-partition": ("K650-01",),
    "truncated-voter-change": ("K595-04",),
    "unknown-candidate": ("K595-08",),
    "unknown-candidate-is-the-only-one": ("K595-08",),
    "leader-removes-itself": ("K853-05", "K595-12"),
    "replacement-add-first": ("K853-06",),
    "replacement-remove-first": ("K853-06",),
    "witness": (),
    "witness-and-one-voter": (),
    "slow-follower-after-a-snapshot": ("K853-08",),
    "newcomer-joins-from-a-snapshot": ("K853-08", "K595-17"),
    "gridlock": ("K595-09",),
    "read-on-an-observer": ("K650-03",),
    "zombie-leader": ("K595-16", "K595-25"),
    "voter-without-pre-vote": ("K650-02",),
    "voter-moves": ("K853-07",),
    "tombstone": (),
    "disk-loss-of-each": ("K853-06",),
    "newcomer-dies-add-first": ("K853-06",),
    "newcomer-dies-remove-first": ("K853-06",),
    "alter-quorum": ("K595-23",),
    "alter-quorum-cancel": ("K595-24",),
    "alter-quorum-another-target": ("K595-24",),
    "alter-quorum-leader-dies": ("K595-23",),
    "alter-quorum-dead-voter": ("K595-23",),
    "founder-formation": ("K595-21", "K595-17"),
    "static-formation": ("K853-04", "K595-21"),
    "static-uuid-change": ("K853-04", "K853-06"),
    "static-late-starter": ("K853-04",),
    "too-few-voters-and-a-moved-one": ("K595-18",),
    "stopped-during-a-new-quorum": ("K595-11", "K595-17"),
    "unknown-replica-claims-to-lead": ("K595-11",),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.requirement(*ids)) for name, ids in ROWS.items()],
)
def test_scenario_matches_its_transcript(name: str) -> None:
    path = SCENARIOS / f"{name}.txt"
    written = path.read_text()
    played = Transcript().play(written)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    else:
        assert played == written


def test_every_transcript_is_tested() -> None:
    assert {path.stem for path in SCENARIOS.glob("*.txt")} == set(ROWS)
