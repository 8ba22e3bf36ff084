"""Runs the parts of a benchmark one after the other; the benchmark defines the parts and handles their results."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from growing_quorum import say

_BUILD = Path(__file__).resolve().parents[1] / "build" / "bench"
Work = Callable[[Path], Iterable[tuple[str, dict[str, Any]]]]
"""Measures in a directory; yields the name of each measurement with its figures."""


def run_parts(
    label: str,
    parts: Mapping[str, Work],
    found: dict[str, Any],
    only: tuple[str, ...],
    deadline: float,
    took: Callable[[str, str, dict[str, Any]], None],
) -> None:
    """Run each part in a temporary directory; `took` is called with its name, the measured object and the figures.

    A part that fails, or that would start after `deadline` (monotonic seconds), is reported in `found["failed"]`.
    """
    for name, work in parts.items():
        if only and name not in only:
            continue
        if time.monotonic() > deadline:
            found["failed"][name] = "no time was left"
            continue
        root = _BUILD / f"{label}-{name}"
        shutil.rmtree(root, ignore_errors=True)
        found[name] = {}
        try:
            for what, figures in work(root):
                took(name, what, figures)
        except Exception as error:  # the other parts are still useful
            found["failed"][name] = repr(error)[:300]
            say(f"{name} failed: {error!r}")
        shutil.rmtree(root, ignore_errors=True)
