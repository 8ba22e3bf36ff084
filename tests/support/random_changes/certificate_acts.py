"""Acts on the objects with certificates: manual deletion, corruption and replacement."""

from support.envtest.kube_api import Json
from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.operations import Operations

_ROTATE = "metadataquorum.dev/rotate-ca"


@act()
def delete_member_certificate(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the Secret with the certificate of a member."""
    member = operations.member(drawn)
    operations.delete(operations.core("secrets", f"{member.name}-tls"))
    yield f"deleted the certificate of {member.name}"


@act()
def spoil_member_certificate(operations: Operations, drawn: Drawn) -> Doing:
    """Take the key out of the Secret with the certificate of a member."""
    member = operations.member(drawn)

    def change(found: Json) -> None:
        found["data"].pop("tls.key", None)

    operations.edit(operations.core("secrets", f"{member.name}-tls"), change)
    yield f"took the key of {member.name} away"


@act()
def delete_admin_certificate(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the Secret with the certificate of administrators."""
    operations.delete(operations.core("secrets", f"{operations.name}-admin-tls"))
    yield "deleted the administrator's certificate"


@act()
def delete_trust(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the ConfigMap with the authorities that are trusted."""
    operations.delete(operations.core("configmaps", f"{operations.name}-trust"))
    yield "deleted the trust"


@act()
def edit_trust(operations: Operations, drawn: Drawn) -> Doing:
    """Write something else into the ConfigMap with the authorities that are trusted."""
    path = operations.core("configmaps", f"{operations.name}-trust")
    operations.api.merge(path, {"data": {"ca.crt": "not a certificate\n"}})
    yield "wrote over the trust"


@act()
def delete_authority(operations: Operations, drawn: Drawn) -> Doing:
    """Delete the Secret with the key of the authority that signs."""
    operations.delete(operations.core("secrets", f"{operations.name}-ca-{_newest(operations)}"))
    yield "deleted the authority"


@act()
def rotate_authority(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for the next authority, by the annotation."""
    wanted = _newest(operations) + 1
    operations.api.merge(
        operations.quorum.path, {"metadata": {"annotations": {_ROTATE: str(wanted)}}}
    )
    yield f"asked for authority {wanted}"


def _newest(operations: Operations) -> int:
    """Generation of the newest authority that has its Secret."""
    prefix = f"{operations.name}-ca-"
    names = (
        each["metadata"]["name"] for each in operations.api.list(operations.core("secrets", ""))
    )
    found = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return max((int(each) for each in found if each.isdigit()), default=1)


ACTS: tuple[Act, ...] = (
    delete_member_certificate,
    spoil_member_certificate,
    delete_admin_certificate,
    delete_trust,
    edit_trust,
    delete_authority,
    rotate_authority,
)
