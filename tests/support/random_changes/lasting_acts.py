"""Acts that are not undone until a condition reports the problem; then the test does what its message says."""

from support.envtest.kube_api import Json
from support.random_changes.act import Act, Answer, Doing, Drawn, FinalCondition, act
from support.random_changes.host_acts import no_more_of
from support.random_changes.operations import Operations


def _corrects(*fields: str) -> Answer:
    """Of a message that says which field of the spec is wrong."""

    def answer(operations: Operations, message: str) -> str:
        operations.restore(*fields)
        return f"corrected spec.{', spec.'.join(fields)}"

    return answer


def _removes_the_quota(operations: Operations, message: str) -> str:
    operations.api.delete(operations.core("resourcequotas", "by-hand"))
    return "removed the quota"


@act(endings=(FinalCondition("Degraded", "ImagePull|ErrImage|InvalidImage", _corrects("image")),))
def wrong_image_left(operations: Operations, drawn: Drawn) -> Doing:
    """Name an image that does not exist, and leave it so."""
    operations.wish(image="127.0.0.1:1/no-such:2")
    yield "image: no such"


@act(
    endings=(
        FinalCondition("Degraded", "CrashLoopBackOff|Error|BadConfiguration", _corrects("config")),
    )
)
def wrong_property_left(operations: Operations, drawn: Drawn) -> Doing:
    """Give a property a value with which no node starts, and leave it so."""
    operations.wish(config={"controller.quorum.fetch.timeout.ms": "later"})
    yield "config: fetch.timeout.ms later"


@act(endings=(FinalCondition("Degraded", "Unschedulable", _corrects("resources")),))
def unschedulable_resources_left(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for more than any host has, and leave it so."""
    operations.wish(resources={"requests": {"cpu": "800"}})
    yield "resources.requests.cpu: 800"


@act(endings=(FinalCondition("Refused", "affinity", _corrects("affinity")),))
def invalid_affinity_left(operations: Operations, drawn: Drawn) -> Doing:
    """Write an affinity that the API server refuses in a pod, and leave it so."""
    required: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {}}
    operations.wish(affinity={"nodeAffinity": required})
    yield "affinity: invalid"


@act(
    endings=(FinalCondition("SpecInvalid", "spec.storage.storageClassName", _corrects("storage")),)
)
def missing_storage_class_left(operations: Operations, drawn: Drawn) -> Doing:
    """Name a storage class that does not exist, and leave it so."""
    operations.wish(storage={**operations.good["storage"], "storageClassName": "none-such"})
    yield "storage.storageClassName: none-such"


@act(endings=(FinalCondition("Refused", "quota", _removes_the_quota),))
def quota_left(operations: Operations, drawn: Drawn) -> Doing:
    """Set a quota under which no StatefulSet, pod or claim can be made, and leave it so; replace a member."""
    what = drawn.one_of(("count/statefulsets.apps", "pods", "persistentvolumeclaims"))
    no_more_of(operations, what)
    retired = [*(operations.good["retire"] or []), operations.member(drawn).node_id]
    operations.want(retire=sorted(set(retired)))
    yield f"no more {what}; retire: {retired}"


ACTS: tuple[Act, ...] = (
    wrong_image_left,
    wrong_property_left,
    unschedulable_resources_left,
    invalid_affinity_left,
    missing_storage_class_left,
    quota_left,
)
