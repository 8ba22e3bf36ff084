"""A refusal can be written in every version of every API: what can't be written would end the process."""

import pytest

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchResponse
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_response_parts
from quorum_node.schema.schema import Message
from quorum_node.security.rights.api_table import RULES
from quorum_node.server.controller.controller_api import ControllerApi
from quorum_node.server.wire.refusals import refuse_request
from support.answered_codes import codes
from support.asked_bodies import request_of

JUDGED = [api for key, api in sorted(APIS.items()) if RULES[key].needs]
ERRORS = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NOT_CONTROLLER)


def refused(api: Api, error: ErrorCode, version: int) -> Message:
    body = request_of(api)
    if ControllerApi.serves(body):
        return ControllerApi.refuse(body, error, "no")
    return refuse_request(body, error, "no", version)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", [api.name for api in JUDGED])
def test_a_refusal_can_be_written_in_every_version_and_says_so(name: str, error: ErrorCode) -> None:
    (api,) = (each for each in JUDGED if each.name == name)
    for version in range(api.min_version, api.max_version + 1):
        parts = encode_response_parts(api, version, 1, refused(api, error, version))
        answer = decode_response(api, version, b"".join(parts)[SIZE_BYTES:])
        assert {code for _, code in codes(answer)} - {0} == {error}, version


def test_a_fetch_by_topic_id_is_refused_on_top_and_one_by_name_for_each_partition() -> None:
    (api,) = (each for each in JUDGED if each.name == "Fetch")
    for version, topics in ((12, 1), (13, 0), (api.max_version, 0)):
        answer = refused(api, ERRORS[0], version)
        assert isinstance(answer, FetchResponse)
        assert len(answer.responses) == topics
