"""Defaults of the formation: new quorums have them, earlier ones stay as they are, and the spec takes precedence."""

from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.desired import base_objects, revision, stateful_set
from quorum_operator.desired import identity as identity_object
from quorum_operator.desired.formation_defaults import MEMBERSHIP_KEY, REQUESTS
from quorum_operator.desired.names import (
    ANNOTATION_DEFAULTS,
    ANNOTATION_RESTART,
    CONFIG_FILE,
    Owner,
)
from quorum_operator.desired.stateful_set import Member
from quorum_operator.kube.facts import identity_facts
from quorum_operator.planner.formation_defaults import (
    FormationDefault,
    defaults_in,
    defaults_text,
)
from quorum_operator.planner.observed import Identity
from quorum_operator.planner.update_record import UpdateOutcome, UpdateRecord, tried_text

OWNER = Owner("demo", "space", "uid-1")
EARLIER = Identity(1, "cluster", 1, "founder-uuid", 3, formed=True)
NEW = replace(EARLIER, defaults=frozenset(FormationDefault))
ZONE = "topology.kubernetes.io/zone"


def spec_of(**given: Any) -> MetadataQuorumSpec:
    return MetadataQuorumSpec.model_validate({"image": "r/n:1", **given})


def built(spec: MetadataQuorumSpec, identity: Identity = NEW) -> dict[str, Any]:
    return stateful_set.build(OWNER, spec, Member(2, 1, identity))


def pod_of(spec: MetadataQuorumSpec, identity: Identity = NEW) -> dict[str, Any]:
    found: dict[str, Any] = built(spec, identity)["spec"]["template"]
    return found


def zone_constraints(pod: dict[str, Any]) -> list[str]:
    spread = pod["spec"].get("topologySpreadConstraints", [])
    return [each["whenUnsatisfiable"] for each in spread if each["topologyKey"] == ZONE]


def file_of(spec: MetadataQuorumSpec, identity: Identity) -> str:
    config = base_objects.build_all(OWNER, spec, identity=identity)[0]
    text: str = config["data"][CONFIG_FILE]
    return text


def test_new_quorum_has_requests_zones_and_no_membership_on_the_kafka_port() -> None:
    pod = pod_of(spec_of())
    assert pod["spec"]["containers"][0]["resources"] == REQUESTS
    assert zone_constraints(pod) == ["ScheduleAnyway"]
    assert f"{MEMBERSHIP_KEY}=false\n" in file_of(spec_of(), NEW)


def test_spec_takes_precedence() -> None:
    spec = spec_of(
        resources={}, podTemplate={"zoneSpread": "None"}, config={MEMBERSHIP_KEY: "true"}
    )
    pod = pod_of(spec)
    assert not pod["spec"]["containers"][0].get("resources")
    assert not zone_constraints(pod)
    assert f"{MEMBERSHIP_KEY}=true\n" in file_of(spec, NEW)
    required = spec_of(podTemplate={"zoneSpread": "Required"})
    assert zone_constraints(pod_of(required)) == ["DoNotSchedule"]


def test_quorum_of_an_earlier_version_has_none_of_them() -> None:
    pod = pod_of(spec_of(), EARLIER)
    assert "resources" not in pod["spec"]["containers"][0]
    assert not zone_constraints(pod)
    assert MEMBERSHIP_KEY not in file_of(spec_of(), EARLIER)


def test_zones_restart_no_pod() -> None:
    zoned = replace(EARLIER, defaults=frozenset({FormationDefault.ZONES}))
    notes = [
        pod_of(spec_of(), each)["metadata"]["annotations"][ANNOTATION_RESTART]
        for each in (EARLIER, zoned)
    ]
    assert notes[0] == notes[1]


@pytest.mark.parametrize("spaced", [" 2500", "2500\t", " 2500 \n"])
def test_spaces_around_a_value_change_neither_the_file_nor_the_restart_hash(spaced: str) -> None:
    key = "controller.quorum.fetch.timeout.ms"
    plain, other = spec_of(config={key: "2500"}), spec_of(config={key: spaced})
    assert file_of(plain, NEW) == file_of(other, NEW)
    hashes = [stateful_set.hashes(OWNER, each, Member(2, 1, NEW)) for each in (plain, other)]
    assert hashes[0] == hashes[1]
    changed = spec_of(config={key: "2501"})
    assert stateful_set.hashes(OWNER, changed, Member(2, 1, NEW)) != hashes[0]


def test_defaults_are_recorded_on_the_identity_and_on_each_claim() -> None:
    body = identity_object.build(
        OWNER,
        index=1,
        cluster_id="cluster",
        founder_id=1,
        founder_uuid="u",
        initial_voters=3,
        defaults=NEW.defaults,
    )
    body["metadata"]["resourceVersion"] = "1"
    found = identity_facts(body, 1)
    assert found is not None
    assert found.defaults == NEW.defaults
    (claim,) = built(spec_of())["spec"]["volumeClaimTemplates"]
    assert defaults_in(claim["metadata"]["annotations"][ANNOTATION_DEFAULTS]) == NEW.defaults


def test_unknown_defaults_are_ignored() -> None:
    assert defaults_in("resources,of-a-later-version") == {FormationDefault.RESOURCES}
    assert defaults_in(None) == defaults_in("") == frozenset()
    assert defaults_in(defaults_text(FormationDefault)) == frozenset(FormationDefault)


@pytest.mark.requirement("OP-10")
def test_canary_of_a_new_quorum_reads_the_new_configuration_and_no_other_member_does() -> None:
    """The defaults are part of the spec that a member runs, and not of the revision that the canary tries."""
    spec = spec_of(update={"soakSeconds": 60}, config={"controller.quorum.fetch.timeout.ms": "1"})
    settled = revision.wanted(spec_of(update={"soakSeconds": 60}))
    tried = tried_text(revision.wanted(spec).id, 0)
    record = UpdateRecord(settled, tried, UpdateOutcome.SOAKING, OWNER.member(2, 1))

    def config_of(node_id: int, identity: Identity) -> dict[str, Any]:
        member = Member(node_id, 1, replace(identity, update=record))
        template = stateful_set.build(OWNER, spec, member)["spec"]["template"]
        volumes = {each["name"]: each for each in template["spec"]["volumes"]}
        found: dict[str, Any] = volumes["config"]["configMap"]
        return found

    for identity in (EARLIER, NEW):
        (item,) = config_of(2, identity)["items"]
        assert item == {"key": revision.CANDIDATE_FILE, "path": CONFIG_FILE}
        assert "items" not in config_of(3, identity)
