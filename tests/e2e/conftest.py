"""One cluster with the operator for all tests, and an arena of its own for each.

What is up stays up after the run, so that the next one begins in seconds; `make clean` removes it.
A test that fails leaves a folder of diagnostics, whose path is in its report.
"""

import itertools
import re
import shutil
from collections.abc import Generator, Iterator

import pytest

from support.trial import diagnostics, stage
from support.trial.arena import Arena
from support.trial.bed import state_directory
from support.trial.stage import Stage

_numbers = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and report.when in ("setup", "call"):
        used = getattr(item, "funcargs", {})
        arena = used.get("arena") or used.get("refusals")
        if isinstance(arena, Arena):
            report.sections.append(("Diagnostics", _collected(arena)))
    return report


def _collected(arena: Arena) -> str:
    folder = diagnostics.collect(arena.namespace, arena.stage.kubeconfig, arena.quorum)
    return f"{folder}\nworkload files: {arena.folder}\n{arena.summary()}"


@pytest.fixture(scope="session")
def ready_stage() -> Iterator[Stage]:
    """The cluster with current images and the operator."""
    ready = stage.bring_up()
    try:
        _, operator_image = stage.load_images(ready)
        stage.install_operator(ready, operator_image)
        yield ready
    finally:
        ready.api.close()


@pytest.fixture
def arena(ready_stage: Stage, request: pytest.FixtureRequest) -> Iterator[Arena]:
    """A namespace, disks and a NodePort for one test; removed after it."""
    yield from _arena(ready_stage, request.node.name)


@pytest.fixture(scope="module")
def refusals(ready_stage: Stage) -> Iterator[Arena]:
    """One for all tests in which nothing comes to run."""
    yield from _arena(ready_stage, "refusals")


def _arena(ready_stage: Stage, name: str) -> Iterator[Arena]:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:28].strip("-")
    folder = state_directory() / "e2e" / slug
    shutil.rmtree(folder, ignore_errors=True)
    made = Arena(ready_stage, f"e2e-{slug}", number=next(_numbers), folder=folder)
    made.prepare()
    try:
        yield made
    finally:
        made.remove()
