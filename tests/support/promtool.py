"""promtool and Prometheus: on PATH, named by METADATAQUORUM_PROMTOOL, or from Debian's package."""

import os
from pathlib import Path

import pytest

from support.kind_env.testbed import TestbedError, prometheus


def promtool() -> Path:
    """The test is skipped where it can't be had: neither on PATH, nor a Debian with its archive in reach."""
    return _program("promtool")


def beside_promtool(name: str) -> Path:
    """Another program of the same package."""
    return _program(name)


def _program(name: str) -> Path:
    named = os.environ.get("METADATAQUORUM_PROMTOOL")
    if named is not None:
        return Path(named).with_name(name)
    try:
        return prometheus.program(name)
    except TestbedError as error:
        pytest.skip(str(error))
