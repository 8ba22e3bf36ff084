"""Acts on the spec: every mutable field, and invalid changes that are undone."""

from support.kind_env.testbed import STORAGE_CLASS, nodes
from support.random_changes.act import Act, Doing, Drawn, act
from support.random_changes.operations import Operations

NODE_IMAGE = "metadataquorum-node:dev"
SAME_IMAGE = "metadataquorum-node:again"
_PASSES = (4.0, 15.0)


@act(wants=5)
def scale_to_five(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for five voters."""
    operations.want(replicas=5)
    yield "replicas: 5"


@act(wants=3)
def scale_to_three(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for three voters."""
    operations.want(replicas=3)
    yield "replicas: 3"


@act(wants=1)
def scale_to_one(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for a single voter."""
    operations.want(replicas=1)
    yield "replicas: 1"


@act(lasts_s=_PASSES)
def scale_up_and_back(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for two voters more, and take it back half way."""
    operations.wish(replicas=5)
    yield "replicas: 5"
    operations.restore("replicas")


@act()
def retire_a_member(operations: Operations, drawn: Drawn) -> Doing:
    """Name a member in spec.retire."""
    retired = [*(operations.good["retire"] or []), operations.member(drawn).node_id]
    operations.want(retire=sorted(set(retired)))
    yield f"retire: {retired}"


@act(lasts_s=_PASSES)
def retire_and_take_back(operations: Operations, drawn: Drawn) -> Doing:
    """Name a member in spec.retire, and take it back half way."""
    node_id = operations.member(drawn).node_id
    operations.wish(retire=[node_id])
    yield f"retire: [{node_id}]"
    operations.restore("retire")


@act()
def other_storage_size(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for larger disks."""
    size = drawn.one_of(("210Mi", "240Mi", "280Mi"))
    operations.want(storage={**operations.good["storage"], "size": size})
    yield f"storage.size: {size}"


@act()
def storage_size_in_other_words(operations: Operations, drawn: Drawn) -> Doing:
    """Write the same size in another unit."""
    operations.want(storage={**operations.good["storage"], "size": "204800Ki"})
    yield "storage.size: 204800Ki"


@act()
def other_storage_class(operations: Operations, drawn: Drawn) -> Doing:
    """Move between the class of disks and the cluster's default class."""
    now = operations.good["storage"].get("storageClassName")
    name = "standard" if now == STORAGE_CLASS else STORAGE_CLASS
    operations.want(storage={**operations.good["storage"], "storageClassName": name})
    yield f"storage.storageClassName: {name}"


@act()
def other_resources(operations: Operations, drawn: Drawn) -> Doing:
    """Change the requests of the container."""
    cpu = drawn.one_of(("40m", "60m", "70m"))
    operations.want(resources={"requests": {"cpu": cpu, "memory": "96Mi"}})
    yield f"resources.requests.cpu: {cpu}"


@act()
def other_property(operations: Operations, drawn: Drawn) -> Doing:
    """Change a property of the nodes."""
    value = drawn.one_of(("2200", "2500", "3000"))
    operations.want(config={"controller.quorum.fetch.timeout.ms": value})
    yield f"config: fetch.timeout.ms {value}"


@act()
def other_image(operations: Operations, drawn: Drawn) -> Doing:
    """Run the same program under another image name."""
    for host in operations.workers:
        names = (f"docker.io/library/{NODE_IMAGE}", f"docker.io/library/{SAME_IMAGE}")
        nodes.on_node(host, ["ctr", "-n", "k8s.io", "images", "tag", "--force", *names])
    image = NODE_IMAGE if operations.good["image"] == SAME_IMAGE else SAME_IMAGE
    operations.want(image=image)
    yield f"image: {image}"


@act()
def other_pull_policy(operations: Operations, drawn: Drawn) -> Doing:
    """Never pull images."""
    operations.want(imagePullPolicy="Never")
    yield "imagePullPolicy: Never"


@act()
def other_spread(operations: Operations, drawn: Drawn) -> Doing:
    """Spread the members over hosts in another way."""
    spread = drawn.one_of(("Preferred", "None"))
    operations.want(spread=spread)
    yield f"spread: {spread}"


@act(lasts_s=_PASSES)
def members_on_different_hosts(operations: Operations, drawn: Drawn) -> Doing:
    """Let no two members share a host for a while: there is none more than members, so planned moves wait."""
    operations.wish(spread="Required")
    yield "spread: Required"
    operations.restore("spread")


@act()
def other_affinity(operations: Operations, drawn: Drawn) -> Doing:
    """Prefer some host."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [operations.workers[-1]]}
    preferred = {"weight": 10, "preference": {"matchExpressions": [term]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    operations.want(affinity=affinity)
    yield "affinity: to the last worker, if possible"


@act()
def other_placement(operations: Operations, drawn: Drawn) -> Doing:
    """Set a node selector that every host meets, and tolerations."""
    operations.want(
        nodeSelector={"kubernetes.io/os": "linux"}, tolerations=[{"operator": "Exists"}]
    )
    yield "nodeSelector and tolerations"


@act()
def other_grace(operations: Operations, drawn: Drawn) -> Doing:
    """Change how long a pod may take to end."""
    operations.want(terminationGracePeriodSeconds=5 + drawn.choice % 10)
    yield "terminationGracePeriodSeconds"


@act()
def other_order(operations: Operations, drawn: Drawn) -> Doing:
    """Change the order of replacements."""
    order = drawn.one_of(("Auto", "AddFirst", "RemoveFirst"))
    operations.want(replacementOrder=order)
    yield f"replacementOrder: {order}"


@act()
def other_deletion_policy(operations: Operations, drawn: Drawn) -> Doing:
    """Change what becomes of claims."""
    policy = drawn.one_of(("Retain", "Delete"))
    operations.want(deletionPolicy=policy)
    yield f"deletionPolicy: {policy}"


@act()
def other_repair(operations: Operations, drawn: Drawn) -> Doing:
    """Change the settings of repairs."""
    repair = {"enabled": True, "debounceSeconds": drawn.choice % 20, "maxReplacementsPerHour": 20}
    operations.want(repair=repair)
    yield f"repair: {repair}"


@act(lasts_s=_PASSES)
def no_repairs(operations: Operations, drawn: Drawn) -> Doing:
    """Switch repairs off for a while."""
    operations.wish(repair={"enabled": False})
    yield "repair.enabled: false"
    operations.restore("repair")


@act(lasts_s=_PASSES)
def paused(operations: Operations, drawn: Drawn) -> Doing:
    """Pause the quorum for a while."""
    operations.wish(paused=True)
    yield "paused: true"
    operations.restore("paused")


@act()
def recovery_of_nothing(operations: Operations, drawn: Drawn) -> Doing:
    """Confirm a recovery that is not offered."""
    uuid = operations.member(drawn).uuid or "A" * 22
    operations.want(recovery={"id": 1, "uuid": uuid, "epoch": 1, "endOffset": 10})
    yield f"recovery: {uuid}"


@act(lasts_s=_PASSES)
def wrong_image(operations: Operations, drawn: Drawn) -> Doing:
    """Name an image that does not exist, and correct it."""
    operations.wish(image="127.0.0.1:1/no-such:1")
    yield "image: no such"
    operations.restore("image")


@act(lasts_s=_PASSES)
def wrong_property(operations: Operations, drawn: Drawn) -> Doing:
    """Give a property a value with which no node starts, and correct it."""
    operations.wish(config={"controller.quorum.fetch.timeout.ms": "soon"})
    yield "config: fetch.timeout.ms soon"
    operations.restore("config")


@act(lasts_s=_PASSES)
def unschedulable_resources(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for more than any host has, and correct it."""
    operations.wish(resources={"requests": {"cpu": "900"}})
    yield "resources.requests.cpu: 900"
    operations.restore("resources")


@act(lasts_s=_PASSES)
def too_little_memory(operations: Operations, drawn: Drawn) -> Doing:
    """Limit the memory to what no node starts with, and correct it."""
    operations.wish(resources={"limits": {"memory": "8Mi"}, "requests": {"memory": "8Mi"}})
    yield "resources.limits.memory: 8Mi"
    operations.restore("resources")


@act(lasts_s=_PASSES)
def wrong_node_selector(operations: Operations, drawn: Drawn) -> Doing:
    """Select hosts that there are none of, and correct it."""
    operations.wish(nodeSelector={"no-such": "label"})
    yield "nodeSelector: no-such"
    operations.restore("nodeSelector")


@act(lasts_s=_PASSES)
def invalid_affinity(operations: Operations, drawn: Drawn) -> Doing:
    """Write an affinity that the API server refuses in a pod, and correct it."""
    operations.wish(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
    )
    yield "affinity: invalid"
    operations.restore("affinity")


@act(lasts_s=_PASSES)
def missing_storage_class(operations: Operations, drawn: Drawn) -> Doing:
    """Name a storage class that does not exist, and correct it."""
    operations.wish(storage={**operations.good["storage"], "storageClassName": "no-such"})
    yield "storage.storageClassName: no-such"
    operations.restore("storage")


@act(lasts_s=_PASSES)
def too_large_storage(operations: Operations, drawn: Drawn) -> Doing:
    """Ask for a larger volume than there is, and correct it."""
    storage = {"size": "900Gi", "storageClassName": STORAGE_CLASS}
    operations.wish(storage=storage)
    yield "storage.size: 900Gi"
    operations.restore("storage")


ACTS: tuple[Act, ...] = (
    scale_to_five,
    scale_to_three,
    scale_to_one,
    scale_up_and_back,
    retire_a_member,
    retire_and_take_back,
    other_storage_size,
    storage_size_in_other_words,
    other_storage_class,
    other_resources,
    other_property,
    other_image,
    other_pull_policy,
    other_spread,
    members_on_different_hosts,
    other_affinity,
    other_placement,
    other_grace,
    other_order,
    other_deletion_policy,
    other_repair,
    no_repairs,
    paused,
    recovery_of_nothing,
    wrong_image,
    wrong_property,
    unschedulable_resources,
    too_little_memory,
    wrong_node_selector,
    invalid_affinity,
    missing_storage_class,
    too_large_storage,
)
