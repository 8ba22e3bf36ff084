"""What a person can type when the demo has ended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invitation:
    """The demo's quorum, and the files and programs that the commands name."""

    quorum: str
    namespace: str
    kubeconfig: str
    kubectl: str
    acknowledgements: str

    def commands(self) -> list[str]:
        """Each works wherever it is pasted: the kubeconfig may have another current namespace."""
        there = f"kubectl -n {self.namespace}"
        pod = f"$({there} get pods -l app.kubernetes.io/instance={self.quorum} -o name | head -1)"
        return [
            f"export KUBECONFIG={self.kubeconfig}",
            f"alias kubectl={self.kubectl}",
            f"{there} get mq",
            f"{there} describe mq {self.quorum}",
            f"{there} exec {pod} -- quorumctl describe replication",
            f"{there} get pods,pvc -o wide",
            "kubectl -n metadataquorum-system logs deploy/metadataquorum",
            f"less {self.acknowledgements}",
        ]
