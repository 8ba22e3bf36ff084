"""A model of a quorum with certificates: Secrets that are lost or corrupted, processes that load them late, an operator that is killed.

The certificates are real, the objects are those that the operator would write, and `certificate_facts` and `plan` are the operator's own. A node takes
over a bundle and a key pair separately, and keeps what it has if the new one can't be used.
"""

import copy
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any

from quorum_operator.certificates import checks, documents, holders, issuing, pem, rotation, steps
from quorum_operator.certificates.facts import Loaded, MemberSeen, Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.certificates.objects import Objects, certificate_facts
from quorum_operator.certificates.pem import Read
from quorum_operator.desired.names import Owner

OWNER = Owner("q", "n", "uid")
BEGIN_S = 1_800_000_000.0


@dataclass(slots=True)
class Process:
    """A member's process: what it has loaded."""

    certificate: Read
    bundle: tuple[Read, ...]
    silent: bool = False
    """It serves its peers, but the operator can't reach it."""


Secret = dict[str, Any]
Authorities = dict[int, Secret]


class Certificates:
    """The state around the planner. Times are real; the operator's clock is wrong by `skew_s` seconds."""

    def __init__(self, members: int = 3) -> None:
        self.now, self.skew_s = BEGIN_S, 0.0
        self.members = [holders.member(OWNER, number, 1) for number in range(1, members + 1)]
        self.others = (holders.person("admin"),)
        self.authorities: Authorities = {}
        self.leaves: dict[str, dict[str, Any]] = {}
        self.trust: dict[str, Any] | None = None
        self.running: dict[str, Process] = {}
        self.leader = self.members[0].name
        self.rotation_requested = False
        self.settled = False
        self._version = 0

    # ---- The operator

    def seen(self) -> Seen:
        """The operator's observation."""
        found = Objects(self.authorities, self.leaves, self.trust)
        members = tuple(map(self._member, self.members))
        at = certificate_facts(
            OWNER, self.now + self.skew_s, copy.deepcopy(found), members, self.others
        )
        return replace(at, rotation_requested=self.rotation_requested)

    def _member(self, holder: Holder) -> MemberSeen:
        process = self.running.get(holder.name)
        loaded = None
        if process is not None and not process.silent:
            signer = self.signer_of(process)
            loaded = Loaded(process.certificate.fingerprint, signer, process.bundle)
        leads = holder.name == self.leader
        return MemberSeen(holder, process is not None, loaded, leader=leads)

    @staticmethod
    def signer_of(process: Process) -> str:
        """The authority of its bundle that has signed its own certificate."""
        for each in process.bundle:
            if pem.signed_by(process.certificate, each):
                return each.fingerprint
        raise AssertionError("a process that does not trust itself")

    def plan(self) -> steps.Step:
        return rotation.plan(self.seen())

    def carry_out(self, step: steps.Step, seen: Authorities | None = None) -> bool:
        """One write, refused (False) if the object has changed meanwhile. `seen`: the authorities with which the step was planned;
        None: the present ones."""
        self.settled = isinstance(step, steps.Settled)
        match step:
            case steps.CreateAuthority(generation, signing):
                if generation in self.authorities:
                    return False
                pair = issuing.new_authority(OWNER, generation, self.now + self.skew_s)
                made = documents.authority_secret(OWNER, generation, pair, signing=signing)
                self.authorities[generation] = self._kept(made)
                self.rotation_requested = False
            case steps.ApplyTrust(bundle, version):
                if version != self._version_of(self.trust):
                    return False
                self.trust = self._kept(documents.trust_config_map(OWNER, bundle))
            case steps.ExtendSignedUntil(generation, version, until):
                note = documents.ANNOTATION_SIGNED_UNTIL
                return self._annotate(generation, version, note, str(int(until)))
            case steps.BeginSigning(generation, version):
                return self._annotate(generation, version, documents.ANNOTATION_SIGNING, "true")
            case steps.Retire(generation, version):
                return self._annotate(generation, version, documents.ANNOTATION_RETIRED, "true")
            case steps.RemoveRetiredMark(generation, version):
                return self._annotate(generation, version, documents.ANNOTATION_RETIRED, None)
            case steps.WriteLeaf(holder, generation, bundle, version):
                authority = (self.authorities if seen is None else seen).get(generation)
                return self._write_leaf(holder, authority, bundle, version)
            case steps.WriteBundle(holder, bundle, version):
                if version != self._version_of(self.leaves.get(holder.name)):
                    return False
                made = documents.leaf_secret(OWNER, holder, None, bundle)
                there = self.leaves.get(holder.name, {}).get("data", {})
                made["data"] = {**there, **made["data"]}
                self.leaves[holder.name] = self._kept(made)
            case _:
                return False
        return True

    def _write_leaf(
        self, holder: Holder, secret: Secret | None, bundle: tuple[Read, ...], version: str
    ) -> bool:
        if secret is None or version != self._version_of(self.leaves.get(holder.name)):
            return False
        data = checks.decoded(secret["data"])
        certificate = pem.read(data[checks.AUTHORITY_CERTIFICATE])
        authority = issuing.Pair(certificate, data[checks.AUTHORITY_KEY].decode())
        pair = issuing.issue(OWNER, holder, authority, self.now + self.skew_s)
        self.leaves[holder.name] = self._kept(documents.leaf_secret(OWNER, holder, pair, bundle))
        return True

    def _annotate(self, generation: int, version: str, note: str, text: str | None) -> bool:
        secret = self.authorities.get(generation)
        if secret is None or version != self._version_of(secret):
            return False
        notes = secret["metadata"]["annotations"]
        notes.pop(note, None)
        notes |= {note: text} if text is not None else {}
        self.authorities[generation] = self._kept(secret)
        return True

    def _kept(self, made: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        made["metadata"]["resourceVersion"] = str(self._version)
        return made

    @staticmethod
    def _version_of(found: dict[str, Any] | None) -> str:
        return "" if found is None else documents.version_of(found)

    # ---- Nodes

    def load_bundle(self, name: str) -> None:
        """A process reads the bundle in its Secret. It keeps trusting the authority of its own certificate, or all if that is unknown."""
        process, secret = self.running.get(name), self.leaves.get(name)
        if process is None or secret is None:
            return
        bundle = documents.bundle_of(OWNER, self._holder(name), secret)
        if any(pem.signed_by(process.certificate, each) for each in bundle):
            process.bundle = bundle

    def load_pair(self, name: str) -> None:
        """A process reads the key pair in its Secret, and uses it if it is valid."""
        process = self.running.get(name)
        found = self._usable_pair(name, process.bundle if process is not None else ())
        if process is not None and found is not None:
            process.certificate = found

    def start(self, name: str) -> None:
        """A new process; it waits for a Secret that it can use."""
        secret = self.leaves.get(name)
        if name in self.running or secret is None:
            return
        bundle = documents.bundle_of(OWNER, self._holder(name), secret)
        found = self._usable_pair(name, bundle)
        if found is not None:
            self.running[name] = Process(found, bundle)

    def stop(self, name: str) -> None:
        self.running.pop(name, None)

    def _usable_pair(self, name: str, bundle: tuple[Read, ...]) -> Read | None:
        secret = self.leaves.get(name)
        data = None if secret is None else checks.decoded(secret.get("data"))
        found = checks.check_leaf(name, data, OWNER, self._holder(name), bundle, self.now)
        return None if isinstance(found, checks.Problem) else found

    def _holder(self, name: str) -> Holder:
        return next(each for each in self.members if each.name == name)

    # # ---- Failures

    def spoil(self, secret: dict[str, Any], how: str) -> None:
        """A user, or a full disk, corrupts it."""
        data = secret["data"]
        key = next((each for each in (checks.KEY, checks.AUTHORITY_KEY) if each in data), None)
        certificate = checks.CERTIFICATE if checks.CERTIFICATE in data else checks.BUNDLE
        match how:
            case "cut off":
                data[certificate] = data[certificate][: len(data[certificate]) // 8 * 4]
            case "no key" if key is not None:
                del data[key]
            case "another key" if key is not None:
                foreign = issuing.new_authority(OWNER, 77, self.now)
                data[key] = b64encode(foreign.key_pem.encode()).decode()
            case "garbage":
                data[certificate] = b64encode(b"\x00\xff").decode()
        self._kept(secret)

    def retire(self, generation: int) -> None:
        """A user marks an authority as retired, whether it is in use or not."""
        version = self._version_of(self.authorities[generation])
        self._annotate(generation, version, documents.ANNOTATION_RETIRED, "true")

    # # ---- Invariants

    def trust_failures(self) -> list[str]:
        """Pairs of running processes with valid certificates (by the real time) of which one does not trust the other."""
        valid = {
            name: each
            for name, each in self.running.items()
            if self.now < each.certificate.validity.not_after
        }
        return [
            f"{one} does not trust {other}"
            for one, mine in valid.items()
            for other, its in valid.items()
            if not any(pem.signed_by(its.certificate, each) for each in mine.bundle)
        ]

    def work(self, rounds: int) -> None:
        """Operator and nodes work undisturbed until nothing is left to do."""
        for _ in range(rounds):
            self.carry_out(self.plan())
            for each in self.members:
                self.start(each.name)
                self.load_bundle(each.name)
                self.load_pair(each.name)
            if self.settled and len(self.running) == len(self.members):
                return


def days(number: float) -> float:
    """In seconds."""
    return number * DAY_S
