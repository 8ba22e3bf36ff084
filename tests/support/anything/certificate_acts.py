"""Acts on the objects with certificates: manual deletion, corruption and replacement."""

from support.anything.act import Act, Doing, Drawn, act
from support.anything.hands import Hands
from support.envtest.kube_api import Json

_ROTATE = "metadataquorum.dev/rotate-ca"


@act()
def delete_member_certificate(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the Secret with the certificate of a member."""
    member = hands.member(drawn)
    hands.delete(hands.core("secrets", f"{member.name}-tls"))
    yield f"deleted the certificate of {member.name}"


@act()
def spoil_member_certificate(hands: Hands, drawn: Drawn) -> Doing:
    """Take the key out of the Secret with the certificate of a member."""
    member = hands.member(drawn)

    def change(found: Json) -> None:
        found["data"].pop("tls.key", None)

    hands.edit(hands.core("secrets", f"{member.name}-tls"), change)
    yield f"took the key of {member.name} away"


@act()
def delete_admin_certificate(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the Secret with the certificate of administrators."""
    hands.delete(hands.core("secrets", f"{hands.name}-admin-tls"))
    yield "deleted the administrator's certificate"


@act()
def delete_trust(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the ConfigMap with the authorities that are trusted."""
    hands.delete(hands.core("configmaps", f"{hands.name}-trust"))
    yield "deleted the trust"


@act()
def edit_trust(hands: Hands, drawn: Drawn) -> Doing:
    """Write something else into the ConfigMap with the authorities that are trusted."""
    path = hands.core("configmaps", f"{hands.name}-trust")
    hands.api.merge(path, {"data": {"ca.crt": "not a certificate\n"}})
    yield "wrote over the trust"


@act()
def delete_authority(hands: Hands, drawn: Drawn) -> Doing:
    """Delete the Secret with the key of the authority that signs."""
    hands.delete(hands.core("secrets", f"{hands.name}-ca-{_newest(hands)}"))
    yield "deleted the authority"


@act()
def rotate_authority(hands: Hands, drawn: Drawn) -> Doing:
    """Ask for the next authority, by the annotation."""
    wanted = _newest(hands) + 1
    hands.api.merge(hands.quorum.path, {"metadata": {"annotations": {_ROTATE: str(wanted)}}})
    yield f"asked for authority {wanted}"


def _newest(hands: Hands) -> int:
    """Generation of the newest authority that has its Secret."""
    prefix = f"{hands.name}-ca-"
    names = (each["metadata"]["name"] for each in hands.api.list(hands.core("secrets", "")))
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
