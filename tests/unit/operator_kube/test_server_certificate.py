"""The API server's certificate is checked, whatever the case of the scheme in a kubeconfig (RFC 3986, 3.1)."""

import asyncio
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import Unavailable
from support.one_answer_server import OneAnswerServer
from support.tls_quorum import certificate_of, new_authority, write_folder


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_server_of_another_authority_gets_no_request(scheme: str, tmp_path: Path) -> None:
    one, other = new_authority(), new_authority("ca-2")
    write_folder(tmp_path, certificate_of("member", 1, one), other.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "keystore.pem")
    with OneAnswerServer((200, {}, b"{}"), context) as server:
        configuration: Any = SimpleNamespace(
            host=server.url.replace("https", scheme),
            ssl_ca_cert=str(tmp_path / "ca.crt"),
            verify_ssl=True,
            cert_file=None,
            key_file=None,
            get_api_key_with_prefix=lambda _: "Bearer secret",
        )

        async def ask() -> None:
            async with KubeApi(configuration) as api:
                await api.get("/api/v1/nodes/h1")

        with pytest.raises(Unavailable, match="certificate"):
            asyncio.run(ask())
        assert server.authorizations == []
