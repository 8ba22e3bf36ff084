"""An admin client for Python programs, on Kafka's own protocol, with the methods that KIP-595 gives it.

    from quorum_node.client import QuorumAdminClient

    with QuorumAdminClient(["controller-0:9093", "controller-1:9093"]) as admin:
        print(admin.describe_quorum().current_voters)
        admin.alter_quorum([4, 5, 6])       # returns when the target is committed
        admin.alter_quorum(None)            # cancels: the present voters stay

`describe_quorum`, `alter_quorum`, `add_voter` and `remove_voter` find the leader (DiscoverBrokers), follow
it when it changes, and retry until the timeout. A final refusal is raised at once.
"""

from quorum_node.client.admin import QuorumAdminClient
from quorum_node.client.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    NoLeader,
    QuorumClientError,
    RequestRefused,
)
from quorum_node.client.quorum_info import AlterQuorumInfo, QuorumInfo, VoterDescription

__all__ = [
    "AlterQuorumInfo",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "NoLeader",
    "QuorumAdminClient",
    "QuorumClientError",
    "QuorumInfo",
    "RequestRefused",
    "VoterDescription",
]
