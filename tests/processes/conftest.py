"""Fixtures of the cluster tests: quorums of real processes, their logs shown when a test fails."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.local_quorum import LocalQuorum
from support.patience import PATIENT

MakeQuorum = Callable[..., LocalQuorum]


@pytest.fixture
def make_quorum(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeQuorum]:
    """Makes quorums in the test's own directory, formed if the test says so; ends their processes after the test."""
    made: list[LocalQuorum] = []

    def make(nodes: int = 3, *, formed: bool = False, **options: object) -> LocalQuorum:
        quorum = LocalQuorum(tmp_path / f"quorum-{len(made)}", nodes, **options)  # type: ignore[arg-type]
        made.append(quorum)
        if formed:
            quorum.form()
        return quorum

    yield make
    for quorum in made:
        quorum.close()
        show_logs(quorum)


@pytest.fixture(scope="module")
def shared_quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    """Three formed voters for tests that leave the quorum as they found it."""
    with LocalQuorum(tmp_path_factory.mktemp("shared"), 3, properties=PATIENT) as quorum:
        quorum.form()
        yield quorum
        quorum.close()
        show_logs(quorum)


def show_logs(quorum: LocalQuorum) -> None:
    """Captured by pytest, shown for failures only."""
    for directory in sorted(quorum.root.glob("node-*")):
        log = directory / "node.log"
        if log.exists():
            print(f"--- {directory.name}\n{log.read_text()[-4000:]}")
