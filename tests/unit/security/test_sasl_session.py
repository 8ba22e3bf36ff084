"""The order of SASL on a connection: what may come when, and that nothing else is looked into."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from quorum_node.schema.schema import Message
from quorum_node.security.scram.credential import Decoy, made_from_password
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.sasl_session import (
    Continues,
    Credentials,
    Ended,
    LoggedIn,
    SaslSession,
    step,
)
from support.request_samples import body_of
from support.scram_client import first_message, last_message

SHA_512 = ScramMechanism.SHA_512
NONCE = "0123456789abcdefghijklmnop"
RECORD = made_from_password(SHA_512, "right", b"salt", 4096).record("alice", SHA_512)
CREDENTIALS = Credentials(
    lambda mechanism, user: RECORD if (mechanism, user) == (SHA_512, "alice") else None,
    Decoy(b"secret"),
    lambda: NONCE,
)
NEW = SaslSession((SHA_512,))
HANDSHAKE = SaslHandshakeRequest(mechanism="SCRAM-SHA-512")


def token(data: bytes) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=data)


def handshake_result() -> SaslSession:
    found = step(NEW, 1, HANDSHAKE, CREDENTIALS)
    assert isinstance(found, Continues)
    assert found.answer == SaslHandshakeResponse(error_code=0, mechanisms=("SCRAM-SHA-512",))
    return found.session


def challenged(user: str = "alice") -> tuple[SaslSession, bytes]:
    found = step(handshake_result(), 2, token(first_message(user)), CREDENTIALS)
    assert isinstance(found, Continues)
    assert isinstance(found.answer, SaslAuthenticateResponse)
    return found.session, found.answer.auth_bytes


def test_client_logs_in() -> None:
    session, server = challenged()
    last = token(last_message(SHA_512, "alice", server, "right"))
    found = step(session, 2, last, CREDENTIALS)
    assert isinstance(found, LoggedIn)
    assert found.user == "alice"
    assert isinstance(found.answer, SaslAuthenticateResponse)
    assert found.answer.auth_bytes.startswith(b"v=")


def test_wrong_password_and_unknown_user_get_the_same_response() -> None:
    answers = []
    for user, password in (("alice", "wrong"), ("nobody", "right")):
        session, server = challenged(user)
        last = token(last_message(SHA_512, user, server, password))
        found = step(session, 2, last, CREDENTIALS)
        assert isinstance(found, Ended)
        assert user in found.reason
        answers.append(found.answer)
    assert answers[0] == answers[1]
    assert isinstance(answers[0], SaslAuthenticateResponse)
    assert answers[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED == 58


def test_unsupported_mechanism_is_rejected() -> None:
    for name in ("SCRAM-SHA-256", "PLAIN", ""):
        found = step(NEW, 1, SaslHandshakeRequest(mechanism=name), CREDENTIALS)
        assert isinstance(found, Ended)
        assert found.answer == SaslHandshakeResponse(error_code=33, mechanisms=("SCRAM-SHA-512",))


def test_message_out_of_order_closes_the_connection() -> None:
    for session, version, body in (
        (NEW, 0, HANDSHAKE),
        (handshake_result(), 1, HANDSHAKE),
        (challenged()[0], 1, HANDSHAKE),
        (NEW, 2, token(first_message("alice"))),
    ):
        found = step(session, version, body, CREDENTIALS)
        assert isinstance(found, Ended)
        answer = found.answer
        assert isinstance(answer, SaslHandshakeResponse | SaslAuthenticateResponse)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_api_versions_are_served_before_the_handshake_and_not_after() -> None:
    versions = ApiVersionsRequest()
    assert NEW.passes(versions)
    assert NEW.passes(None)
    for session in (handshake_result(), challenged()[0]):
        assert not session.passes(versions)
        assert not session.passes(None)
        assert isinstance(step(session, 4, versions, CREDENTIALS), Ended)


def test_other_requests_are_rejected_before_the_login() -> None:
    allowed = {ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest}
    for api in APIS.values():
        if api.request not in allowed:
            for session in (NEW, handshake_result(), challenged()[0]):
                body = body_of(api, node_id=1)
                assert not session.passes(body)
                found = step(session, api.max_version, body, CREDENTIALS)
                assert found == Ended(
                    f"{api.request.__name__} came before the client had logged in"
                )


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["SCRAM-SHA-512", "SCRAM-SHA-256"]).map(
                lambda name: SaslHandshakeRequest(mechanism=name)
            ),
            st.one_of(
                st.binary(max_size=40),
                st.sampled_from(
                    [first_message("alice"), b"c=biws,r=abc" + NONCE.encode() + b",p=AAAA"]
                ),
            ).map(token),
        ),
        max_size=6,
    )
)
@settings(max_examples=200, deadline=None)
def test_no_login_succeeds_without_the_password(bodies: list[Message]) -> None:
    session = NEW
    for body in bodies:
        found = step(session, 1, body, CREDENTIALS)
        assert not isinstance(found, LoggedIn)
        if isinstance(found, Ended):
            return
        session = found.session
