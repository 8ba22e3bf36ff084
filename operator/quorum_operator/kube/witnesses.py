"""Evidence about a quorum's identities from its StatefulSets."""

from typing import Any

from quorum_operator.desired import names
from quorum_operator.kube import facts
from quorum_operator.kube.finding import Parts, formation_of
from quorum_operator.planner.credible_identity import Witness
from quorum_operator.planner.formation_defaults import defaults_in
from quorum_operator.planner.tls_stage import stage_of_process

Object = dict[str, Any]
_KEY_STORE = "ssl.keystore.location"


def witnesses(parts: Parts) -> list[Witness]:
    """Evidence from each StatefulSet with a known formation."""
    found = []
    for _, each in sorted(parts.sets.items()):
        formation = formation_of(each)
        if formation is None:
            continue
        notes, overrides = _created_with(each), facts.overrides_of(each)
        found.append(
            Witness(
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


def _created_with(found: Object) -> dict[str, str]:
    """Annotations of a StatefulSet's claim template, which is immutable."""
    for each in found["spec"].get("volumeClaimTemplates") or []:
        notes: dict[str, str] = (each.get("metadata") or {}).get("annotations") or {}
        return notes
    return {}
