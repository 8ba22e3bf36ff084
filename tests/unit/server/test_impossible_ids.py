"""Node ids that no record can contain are refused by the admin API: the core would end the node when it writes one."""

from pathlib import Path

import pytest

from support.hosted_node import NODE_ID, running_node


@pytest.mark.parametrize("voter_id", [-1, 2**31, 2**70])
async def test_impossible_id_of_a_target_voter_is_rejected(tmp_path: Path, voter_id: int) -> None:
    async with running_node(tmp_path) as node, node.client() as client:
        body = {"targetVoters": [NODE_ID, voter_id], "timeoutMs": 1000}
        answer = await client.post("/v1/alter-quorum", json=body)
        assert answer.status_code == 400
        assert answer.json()["message"] == f"node id {voter_id} must be from 0 to 2147483647"
