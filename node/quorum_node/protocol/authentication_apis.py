"""The APIs that ask for a caller who has proved an identity: SASL, delegation tokens.

Owns their part of the table in `apis.py`. Must not know how a request is handled.
Source: Kafka's protocol guide, "API Keys", the versions of Kafka 4.3.
"""

from quorum_node.protocol.api import Api
from quorum_node.protocol.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from quorum_node.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

AUTHENTICATION_APIS: tuple[Api, ...] = (
    Api(17, "SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse, 0, 1),
    Api(36, "SaslAuthenticate", SaslAuthenticateRequest, SaslAuthenticateResponse, 0, 2),
    Api(
        38,
        "CreateDelegationToken",
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
        1,
        3,
    ),
    Api(
        39, "RenewDelegationToken", RenewDelegationTokenRequest, RenewDelegationTokenResponse, 1, 2
    ),
    Api(
        40,
        "ExpireDelegationToken",
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
        1,
        2,
    ),
    Api(
        41,
        "DescribeDelegationToken",
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
        1,
        3,
    ),
)
