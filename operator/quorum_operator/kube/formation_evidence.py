"""Evidence about a quorum's identities from its StatefulSets."""

from quorum_operator.desired import names
from quorum_operator.kube import facts
from quorum_operator.kube.finding import Parts, created_with, formation_of
from quorum_operator.planner.credible_identity import FormationEvidence
from quorum_operator.planner.formation_defaults import defaults_in
from quorum_operator.planner.tls_stage import stage_of_process

_KEY_STORE = "ssl.keystore.location"


def formation_evidence(parts: Parts) -> list[FormationEvidence]:
    """Evidence from each StatefulSet with a known formation."""
    found = []
    for _, each in sorted(parts.sets.items()):
        formation = formation_of(each)
        if formation is None:
            continue
        notes, overrides = created_with(each), facts.overrides_of(each)
        found.append(
            FormationEvidence(
                formation=formation,
                cluster_id=notes.get(names.ANNOTATION_CLUSTER_ID),
                stage=stage_of_process(overrides),
                migrated=_KEY_STORE in overrides,
                closed=notes.get(names.ANNOTATION_TLS) == "true",
                policed=notes.get(names.ANNOTATION_NETWORK_POLICY) == "true",
                defaults=defaults_in(notes.get(names.ANNOTATION_DEFAULTS)),
                runs=each["spec"].get("replicas", 1) > 0,
                may_found=facts.founding_facts(overrides) is not None,
            )
        )
    return found
