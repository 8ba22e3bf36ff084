"""The reasons of each condition. `docs/how-to/conditions/` has a page per type with a row per reason.

A test compares this table with the pages and with the reasons in the code.
"""

from quorum_operator.status_crd import Phase

_STEPS = (
    *("AddVoter", "AdoptObject", "ApplyObjects", "BeginRecovery", "CreateIdentity", "CreateMember"),
    *(
        "DeleteIncarnation",
        "DeleteStrayPod",
        "GiveUpRecovery",
        "LatchFailure",
        "RecordFormed",
        "RecordReplicaUuid",
    ),
    "RecordTlsStage",
    "RecordUpdate",
    *(
        "RebuildIdentity",
        "RebuildMember",
        "RemoveVoter",
        "RestartMember",
        "RestoreLabels",
        "ScaleToZero",
        "StartMember",
    ),
    *(
        "DiscardVolume",
        "ExpandVolume",
        "GuardDrains",
        "TransferLeadership",
        "Unlatch",
        "UpdateMember",
        "Wait",
    ),
)

REASONS: dict[str, tuple[str, ...]] = {
    "Ready": ("AllVotersLive", *(each.value for each in Phase if each is not Phase.READY)),
    "Formed": ("InitialVotersJoined", "WaitingForVoters"),
    "QuorumConfirmed": ("MajorityConfirmed", "NoConfirmedDescribe"),
    "QuorumLost": ("HasMajority", "NoMajority", "NothingLeft"),
    "Progressing": ("Settled", *_STEPS),
    "Degraded": ("AllMembersHealthy", "MembersUnhealthy"),
    "MembersUnreachable": ("AllReachable", "HostsAway", "ZoneAway"),
    "DiskFull": ("EnoughSpace", "DiskFull"),
    "EvenVoters": ("AsWanted", "BetweenMoves"),
    "AlterationPending": ("NoTarget", "TargetVotersSet"),
    "SpecInvalid": ("SpecValid", "SpecInvalid"),
    "Refused": (
        *("NothingRefused", "AdmissionDenied", "AlreadyExists", "Conflict", "Contested"),
        *("Forbidden", "InternalError", "Invalid", "NoAddress", "NodeRefused", "NotSafeNow"),
        *("QuotaExceeded", "Sealed", "ServerError", "TokenRefused", "Unauthorized"),
    ),
    "ClaimsInDoubt": ("NoDoubt", "EarlierResource", "NotCertain"),
    "IdentityMissing": ("IdentityThere", "IdentityGone"),
    "ForeignObjects": ("NoForeignObjects", "NamesTaken", "EarlierResource"),
    "TlsReady": (
        *("Disabled", "WriteRefused", "Issuing", "Migrating", "GoingBack", "Renewing"),
        "CertificatesIssued",
    ),
    "TlsBlocked": (
        *("NothingBlocked", "EndsSoon", "Expired", "HalfWritten", "KeyMismatch", "Missing"),
        *(
            "CannotCertify",
            "NotAnAuthority",
            "NotYetValid",
            "SameName",
            "TooMany",
            "TrustedExpired",
        ),
        *("RevokedMissing", "RevokedTooLong", "RevokedUnreadable"),
        *("TrustedMissing", "TrustedUnreadable", "IssuerFailed", "IssuerForbidden", "IssuerLate"),
        *("IssuerMissing", "IssuedUnusable", "NameUnusable"),
    ),
    "PlacementBlocked": ("NothingBlocked", "TooFewHosts"),
    "StorageChanging": ("AsWanted", "Expanding", "Replacing"),
    "BackupCurrent": (
        *(
            "BackupRecent",
            "Disabled",
            "FirstPending",
            "LastRunFailed",
            "Overdue",
            "Refused",
            "Suspended",
        ),
    ),
    "Updated": (
        *("AllMembersUpdated", "CanaryFailed", "Held", "RollingOut", "Soaking", "Waiting"),
    ),
    "TrustPending": ("NothingPending", "WaitingForMembers", "WaitingForBrokers"),
}
"""Reasons of a MetadataQuorum, by condition."""

_NOT_READ = ("Forbidden", "Unauthorized", "Invalid", "ServerError", "InternalError")
"""Why the operator can't read the objects of the quorum."""

REASSIGNMENT_REASONS: dict[str, tuple[str, ...]] = {
    "Progressing": (
        *("Await", "BeginMoves", "CancelMoves", "Finished", "StepRefused", "WaitingForTurn"),
        *("QuorumNotFound", "QuorumNotReady", "QuorumFailed", "NoAnswer", "NotLeader"),
        *("SpecInvalid", *_NOT_READ),
    ),
    "QuorumReachable": (
        *("Answered", "QuorumNotReady", "QuorumFailed", "NoAnswer", "NotLeader"),
        *_NOT_READ,
    ),
    "PartitionsRefused": ("AllCanMove", "PartitionsRefused"),
    "Complete": ("AllArrived", "Pending", "Running", "Paused", "Failed", "Cancelled"),
}
"""Reasons of a PartitionReassignment, by condition. Other error codes of nodes may occur too, in CamelCase."""
