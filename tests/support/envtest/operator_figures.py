"""Metrics of a running operator, and CPU time and memory of a process from the kernel."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PREFIX = "metadataquorum_operator_"


@dataclass(frozen=True, slots=True)
class MetricSums:
    """Sums of the operator's metrics over all labels, by name without the prefix."""

    sums: Mapping[str, float]

    def of(self, name: str) -> float:
        return self.sums.get(name, 0.0)

    def since(self, earlier: "MetricSums", name: str) -> float:
        """The growth since an earlier reading."""
        return self.of(name) - earlier.of(name)


def metrics_at(port: int) -> MetricSums:
    """Read the operator's endpoint on this port. Raises httpx.HTTPError without an answer."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20, trust_env=False).text
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith(_PREFIX):
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0].removeprefix(_PREFIX)
            sums[name] = sums.get(name, 0.0) + float(value)
    return MetricSums(sums)


def cpu_s(process_id: int) -> float:
    """User and system time of a process until now."""
    stat = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / _TICKS_PER_S


def rss_mib(process_id: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{process_id}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
