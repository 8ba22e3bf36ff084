"""Real processes that speak TLS: they form, serve, and let nobody in who can't show who he is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tls_quorum import TlsQuorum


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[TlsQuorum]:
    with TlsQuorum(tmp_path / "quorum", 3) as made:
        yield made
        made.close()
        for node in made.nodes.values():
            print(node.log_text[-4000:])


def test_three_members_with_tls_form_elect_and_write(quorum: TlsQuorum) -> None:
    quorum.form()
    assert quorum.voter_ids() == [1, 2, 3]
    quorum.put("a", "1")
    assert quorum.get("a") == "1"
