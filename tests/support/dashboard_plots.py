"""A picture of the dashboard's panels, drawn from the answers of a real Prometheus, for people who check what users will see."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from support.envtest.kube_api import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3
_PANEL_INCHES = (5.2, 2.7)

Samples = Callable[[str], list[Json]]
"""Answers a query with series as Prometheus does: `metric`, and `values` of (time in seconds, value)."""


def draw(panels: Sequence[Json], samples: Samples, begun_s: float, picture: Path) -> None:
    """One plot for each panel with queries; those without samples say so. `begun_s`: zero of the time axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = [panel for panel in panels if panel.get("targets")]
    rows = math.ceil(len(shown) / _COLUMNS)
    width, height = _PANEL_INCHES
    figure, axes = plt.subplots(
        rows, _COLUMNS, figsize=(width * _COLUMNS, height * rows), squeeze=False
    )
    for axis in axes.flat[len(shown) :]:
        axis.axis("off")
    for panel, axis in zip(shown, axes.flat, strict=False):
        _draw_panel(axis, panel, samples, begun_s)
    figure.tight_layout()
    figure.savefig(picture, dpi=70)
    plt.close(figure)


def _draw_panel(axis: "Axes", panel: Json, samples: Samples, begun_s: float) -> None:
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
    axis.set_title(panel["title"] + (f" ({unit})" if unit else ""), fontsize=9)
    axis.tick_params(labelsize=7)
    found = [
        (_legend(target.get("legendFormat", ""), series["metric"]), series["values"])
        for target in panel["targets"]
        for series in samples(target["expr"])
    ]
    if not found:
        axis.text(0.5, 0.5, "no samples", transform=axis.transAxes, ha="center", fontsize=8)
        return
    is_timeline = panel["type"] == "state-timeline"
    for row, (name, points) in enumerate(found):
        times = [float(at) - begun_s for at, _ in points]
        values = [row if is_timeline else float(value) for _, value in points]
        axis.plot(times, values, "s" if is_timeline else ".-", markersize=3, label=name)
    if is_timeline:
        axis.set_yticks(range(len(found)), [name for name, _ in found])
    else:
        axis.legend(fontsize=6, loc="best")


def _legend(template: str, labels: Json) -> str:
    """As Grafana fills it in; all labels without a template."""
    if not template or template == "__auto":
        return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: str(labels.get(found[1], "")), template)
