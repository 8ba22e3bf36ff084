"""The first SCRAM credentials of a quorum that is formed, from the file that `formation.scram.file` names.

Owns the file: each line is what stock Kafka's `format --add-scram` takes; empty lines and lines that begin with # count for
nothing. It is not needed any more once the quorum has formed.
"""

import secrets

from quorum_node.configuration.keys import quorum
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.scram.add_scram import parse_add_scram
from quorum_node.storage.directory import OpenDirectory

_SALT_BYTES = 24


def first_credentials(
    config: NodeConfig, directory: OpenDirectory
) -> tuple[UserScramCredentialRecord, ...]:
    """For the first leader to write. Raises ConfigError; nothing of a password is in the message."""
    path = config.first_scram_file
    if path is None:
        return ()
    key = quorum.FIRST_SCRAM.name
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        if directory.first.log.end_offset:
            return ()
        raise ConfigError(f"{key}={path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}={path}: can't be read ({type(error).__name__})") from None
    found: list[UserScramCredentialRecord] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found += parse_add_scram((line,), lambda: secrets.token_bytes(_SALT_BYTES))
        except SecuritySettingError as error:
            raise ConfigError(f"{key}={path}: line {number}: {error.why}") from None
    return tuple(found)
