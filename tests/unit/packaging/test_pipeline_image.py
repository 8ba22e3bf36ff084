"""The pipeline's image: what each start would do again is done when it is built, and the user whom it runs as can read it."""

import re
from pathlib import Path

import pytest

from quorum_pipeline.__main__ import _COMMANDS
from quorum_pipeline.spark.class_data_sharing import cache_directory

DOCKERFILE = Path(__file__).parents[3] / "pipeline" / "Dockerfile"


@pytest.fixture
def last_stage() -> list[str]:
    """Its instructions, each in one line."""
    text = re.sub(r"#.*\n", "", DOCKERFILE.read_text()).replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    begin = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return lines[begin:]


@pytest.fixture
def environment(last_stage: list[str]) -> dict[str, str]:
    (line,) = (each for each in last_stage if each.startswith("ENV "))
    return dict(each.split("=", 1) for each in line.split()[1:])


def test_image_is_prepared_with_its_runtime_settings(last_stage: list[str]) -> None:
    """Behind the code and the settings, before the user who can't write there."""
    kinds = [line.split()[0] for line in last_stage]
    (prepared,) = (n for n, line in enumerate(last_stage) if "quorum-pipeline prepare" in line)
    assert max(n for n, kind in enumerate(kinds) if kind in ("COPY", "ENV")) < prepared
    assert prepared < kinds.index("USER")
    assert "prepare" in _COMMANDS


def test_compiled_cache_is_part_of_the_image_and_works_on_any_cpu(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a directory that is a volume of its own in a pod, nor for the CPU of the machine that built it."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    kept, loops = cache_directory(), Path(environment["NUMBA_CACHE_DIR"])
    assert loops.is_relative_to(kept)
    assert kept.is_absolute()
    assert not kept.is_relative_to("/tmp")
    assert environment["NUMBA_CPU_NAME"] == "generic"
