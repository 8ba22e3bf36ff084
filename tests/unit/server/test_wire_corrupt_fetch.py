"""A follower's report of damaged records: a private tagged field, absent otherwise."""

from dataclasses import replace

import pytest

from quorum_node.protocol.apis import FETCH
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.raft import messages as raft
from quorum_node.schema.codec import decode, encode
from quorum_node.server.wire import fetch
from support.raft.cores import CLUSTER_ID, key_of

pytestmark = [pytest.mark.requirement("K595-02")]
PLAIN = raft.FetchRequest(CLUSTER_ID, key_of(2), 3, 10, 3)


def sent(request: raft.FetchRequest, version: int) -> tuple[bytes, raft.FetchRequest]:
    data = encode(fetch.FETCH.to_wire([(0, request)], version), version)
    body = decode(FetchRequest, version, data)
    ((_, arrived),) = fetch.FETCH.split(body)
    assert isinstance(arrived, raft.FetchRequest)
    return data, arrived


@pytest.mark.parametrize("version", range(12, FETCH.max_version + 1))
def test_corruption_report_is_encoded_in_every_version_of_our_replicas(version: int) -> None:
    quiet, without = sent(PLAIN, version)
    reported, with_it = sent(replace(PLAIN, corrupt=True), version)
    assert not without.corrupt
    assert with_it.corrupt
    assert len(reported) > len(quiet), "the field is sent without a value"
