"""`--add-scram`: the first credentials of a quorum, in the text that stock Kafka takes."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.scram.add_scram import parse_add_scram
from quorum_node.security.scram.credential import made_from_password
from quorum_node.security.scram.mechanism import ScramMechanism

SALT = b"a fresh salt"
SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def salt() -> bytes:
    return SALT


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_credential_is_created_from_a_password() -> None:
    made = parse_add_scram(
        [
            "SCRAM-SHA-256=[name=alice,password=alice-secret]",
            " SCRAM-SHA-512=[name=bob,iterations=8192,password=a=b] ",
        ],
        salt,
    )
    assert made == (
        made_from_password(SHA_256, "alice-secret", SALT, 4096).record("alice", SHA_256),
        made_from_password(SHA_512, "a=b", SALT, 8192).record("bob", SHA_512),
    )


def test_quoted_values_salt_and_salted_password_are_parsed() -> None:
    wanted = made_from_password(SHA_256, "it's", b"given", 4096).record("alice", SHA_256)
    salted = b64(SHA_256.salted_password("it's", b"given", 4096))
    texts = (
        f'SCRAM-SHA-256=[name="alice",password="it\'s",salt="{b64(b"given")}"]',
        f"SCRAM-SHA-256=[name=alice,saltedpassword={salted},salt={b64(b'given').rstrip('=')}]",
    )
    assert parse_add_scram(texts, salt) == (wanted, wanted)


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        (
            "SCRAM-SHA-1=[name=a,password=secret]",
            "has to begin with one of SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ("SCRAM-SHA-256", "equals sign"),
        ("SCRAM-SHA-256=name=a,password=secret", "in brackets"),
        ("SCRAM-SHA-256=[", "in brackets"),
        ("SCRAM-SHA-256=[password=secret]", "needs the name of a user"),
        ("SCRAM-SHA-256=[name=,password=secret]", "needs the name of a user"),
        ("SCRAM-SHA-256=[name=a]", "needs a password or a saltedpassword for 'a'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=c2VjcmV0]", "needs the salt"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=c2VjcmV0,salt=YQ==]", "has 32 bytes"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=secret!,salt=YQ==]", "not base64"),
        ("SCRAM-SHA-256=[name=a,password=secret,salt=!]", "the salt is not base64"),
        ("SCRAM-SHA-256=[name=a,password=secret,salt=é]", "the salt is not base64"),
        ("SCRAM-SHA-256=[name=a,password=secret\udcff]", "not UTF-8"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=4095]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=16385]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=secret]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=x,secret]", "can't have a comma"),
        ("SCRAM-SHA-256=[name=a,password=x,secret=y]", "can't have a comma"),
    ],
)
def test_invalid_credential_is_reported_without_the_secret(argument: str, why: str) -> None:
    with pytest.raises(SecuritySettingError, match=why) as raised:
        parse_add_scram([argument], salt)
    assert "secret" not in str(raised.value).replace("saltedpassword", "")


@given(st.text('SCRAM-H256=[]nameliptorsd,"1\\é', max_size=60))
def test_any_text_is_a_credential_or_is_rejected(text: str) -> None:
    try:
        parse_add_scram([text, f"SCRAM-SHA-256=[{text}]"], salt)
    except SecuritySettingError:
        pass
