"""Every family of faults. A new one is a file in this folder and a line in `LATER_FAMILIES`.

Faults of `FAMILIES` occur in every history. Those of `LATER_FAMILIES` occur in a share of them, several times as often, and have
randomness of their own. So a new family leaves the other histories as they were, seed by seed.
"""

from collections.abc import Callable

from quorum_simulation.faults.bit_rot import BitRot
from quorum_simulation.faults.clocks import ClockFaults
from quorum_simulation.faults.disks import DiskFaults
from quorum_simulation.faults.failing_syncs import FailingSyncs
from quorum_simulation.faults.false_leaders import FalseLeaders
from quorum_simulation.faults.family import Family, FaultContext
from quorum_simulation.faults.forged_answers import ForgedAnswers
from quorum_simulation.faults.forged_requests import ForgedRequests
from quorum_simulation.faults.forgeries import ForgeryFaults
from quorum_simulation.faults.full_disks import FullDisks
from quorum_simulation.faults.links import LinkFaults
from quorum_simulation.faults.old_images import OldImages
from quorum_simulation.faults.power import PowerFaults
from quorum_simulation.faults.processes import ProcessFaults
from quorum_simulation.faults.weather import WeatherFaults

FAMILIES: tuple[Callable[[FaultContext], Family], ...] = (
    ProcessFaults,
    LinkFaults,
    WeatherFaults,
    DiskFaults,
    ClockFaults,
    ForgeryFaults,
    PowerFaults,
    FullDisks,
    FailingSyncs,
    OldImages,
    BitRot,
)
LATER_FAMILIES: tuple[Callable[[FaultContext], Family], ...] = (
    ForgedAnswers,
    ForgedRequests,
    FalseLeaders,
)
LATER_SHARE = 0.35
LATER_WEIGHT = 3
"""Each of their kinds is that many times as likely as one of the others."""
FEW_KINDS_SHARE = 0.5
"""Share of the histories with `LATER_FAMILIES` that have only a few of the other kinds, so the same ones meet again and again."""
FEW_KINDS = 5
