"""The first SCRAM credentials of a new quorum, from the file that `formation.scram.file` names.

Owns the file: each line has the form of stock Kafka's `format --add-scram`; empty lines and lines that begin with # are ignored. The file
is not needed any more once the quorum has formed.
"""

import secrets

from quorum_node.configuration.keys import quorum
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.configuration.properties import ConfigError
from quorum_node.records.metadata import UserScramCredentialRecord, encode_metadata
from quorum_node.schema.decoder import MAX_STRING_BYTES
from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.scram.add_scram import parse_add_scram
from quorum_node.security.scram.credential import SALT_BITS, salt_from
from quorum_node.server.partition.port import MAX_BATCH_BYTES
from quorum_node.storage.directory import OpenDirectory

_MAX_BYTES = MAX_BATCH_BYTES - (64 << 10)
"""The rest of the batch is for the other first records."""


def first_credentials(
    config: NodeConfig, directory: OpenDirectory
) -> tuple[UserScramCredentialRecord, ...]:
    """The records that the first leader writes. Raises ConfigError; its message contains nothing of a password."""
    path = config.first_scram_file
    if path is None:
        return ()
    key = quorum.FIRST_SCRAM.name
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        if directory.first.log.end_offset:
            return ()
        raise ConfigError(f"{key}={path}: the file does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}={path}: can't be read ({type(error).__name__})") from None
    found: list[UserScramCredentialRecord] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found += parse_add_scram((line,), lambda: salt_from(secrets.randbits(SALT_BITS)))
        except SecuritySettingError as error:
            raise ConfigError(f"{key}={path}: line {number}: {error.why}") from None
        if len(found[-1].name.encode()) > MAX_STRING_BYTES:
            text = f"the name of a user has at most {MAX_STRING_BYTES} bytes"
            raise ConfigError(f"{key}={path}: line {number}: {text}")
    if sum(len(encode_metadata(each)) for each in found) > _MAX_BYTES:
        text = f"its credentials have more than {_MAX_BYTES} bytes, and they are written as one batch: add some of the users once the quorum has formed"
        raise ConfigError(f"{key}={path}: {text}")
    return tuple(found)
