"""The file with the first users of a quorum: what it may hold, when it is needed, and that no password is in a message."""

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorum_node.configuration.properties import ConfigError
from quorum_node.controller.features import begin
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.metadata import FeatureLevelRecord, UserScramCredentialRecord
from quorum_node.security.scram.credential import made_from_password
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.server.starting.first_credentials import first_credentials

SECRET = "hush-hush"


def read(path: Path | None, end_offset: int = 0) -> tuple[UserScramCredentialRecord, ...]:
    config = SimpleNamespace(first_scram_file=path)
    log = SimpleNamespace(end_offset=end_offset)
    directory = SimpleNamespace(first=SimpleNamespace(log=log))
    return first_credentials(cast(Any, config), cast(Any, directory))


def test_each_line_is_a_user_with_its_own_salt(tmp_path: Path) -> None:
    path = tmp_path / "users"
    line = f"SCRAM-SHA-512=[name=alice,password={SECRET}]"
    path.write_text(f"\n # who begins\n{line}\n{line}\n")
    one, other = read(path)
    assert one.salt != other.salt
    for each in (one, other):
        made = made_from_password(ScramMechanism.SHA_512, SECRET, each.salt, each.iterations)
        assert made.record("alice", ScramMechanism.SHA_512) == each


def test_credentials_are_ignored_without_the_option_or_after_formation(tmp_path: Path) -> None:
    assert read(None) == ()
    assert read(tmp_path / "gone", end_offset=3) == ()
    with pytest.raises(ConfigError, match=r"formation.scram.file=.*gone: the file does not exist"):
        read(tmp_path / "gone")


@pytest.mark.parametrize(
    ("name_bytes", "users", "why"),
    [(32_768, 1, "line 1: the name of a user"), (32_000, 140, "more than 4128768 bytes")],
)
def test_users_that_do_not_fit_into_the_first_batch_are_refused(
    tmp_path: Path, name_bytes: int, users: int, why: str
) -> None:
    """The first leader could not write them, and would end with an internal error at each start."""
    path = tmp_path / "users"
    salted = base64.b64encode(bytes(32)).decode()
    line = f"SCRAM-SHA-256=[name={'n' * name_bytes},saltedpassword={salted},salt=AAAA]"
    path.write_text(f"{line}\n" * users)
    with pytest.raises(ConfigError, match=why):
        read(path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"PLAIN=[name=alice,password={SECRET}]", "has to begin with one of"),
        (f"SCRAM-SHA-512=[name=alice,password={SECRET},{SECRET}]", "can't have a comma"),
        (f"SCRAM-SHA-512=name=alice,password={SECRET}", "have to be in brackets"),
        (SECRET, "has to begin with one of"),
    ],
)
def test_invalid_line_is_reported_without_the_password(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "users"
    path.write_text(f"# first\n{line}\n")
    with pytest.raises(ConfigError, match=f"line 2: .*{why}") as raised:
        read(path)
    assert SECRET not in str(raised.value)


def test_credentials_are_written_with_the_first_feature_levels_and_never_again() -> None:
    made = made_from_password(ScramMechanism.SHA_256, SECRET, b"salt", 4096)
    user = made.record("alice", ScramMechanism.SHA_256)
    records = begin(ClusterImage(), in_transaction=False, first_credentials=(user,))
    assert user in records
    levels = {
        each.name: each.feature_level for each in records if isinstance(each, FeatureLevelRecord)
    }
    assert "metadata.version" in levels
    image = ClusterImage()
    for each in records:
        image = image.replay(each)
    assert begin(image, in_transaction=False, first_credentials=(user,)) == ()
