"""After its storage failed a replica acknowledges nothing: no data, no vote, no endorsement, no commit."""

from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import (
    FetchResponse,
    FetchSnapshotResponse,
    Response,
    VoterChangeResponse,
    VoteResponse,
)
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class SilentAfterStorageFailure(Invariant):
    def responded(self, host: SimulatedHost, request_id: int, response: Response) -> None:
        if not host.disk.failure_seen:
            return
        match response:
            case VoteResponse():
                says_yes = response.vote_granted
            case FetchResponse() | FetchSnapshotResponse() | VoterChangeResponse():
                says_yes = response.error is RaftError.NONE
            case _:
                says_yes = False
        if says_yes:
            raise Violation(f"{host.address} answers {response} after its storage failed")

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        if host.disk.failure_seen:
            raise Violation(f"{host.address} commits {offset} after its storage failed")
