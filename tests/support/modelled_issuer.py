"""A model of cert-manager: signs what the spec of a Certificate asks for, writes the Secret, and sets the status. Pure.

After cert-manager's documentation (usage/certificate, reference/api-docs): `tls.crt` has the certificate and its issuers, `tls.key` the
key in PKCS#8, `ca.crt` an authority that must not be trusted; the conditions are Ready, and Issuing while it is in progress or has
failed.
"""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.generated_certificates import BOTH_USAGES, Issued, authority, key_pem, pem

Object = dict[str, Any]


def _encoded(data: bytes) -> str:
    return b64encode(data).decode()


class ModelledIssuer:
    """An issuer with an authority, or one below a root. `now`: seconds since 1970. `usages`: that it allows, whatever is
    asked for.
    """

    def __init__(
        self,
        name: str,
        now: float,
        *,
        below_a_root: bool = False,
        usages: tuple[x509.ObjectIdentifier, ...] = BOTH_USAGES,
    ) -> None:
        self.usages = usages
        begin = datetime.fromtimestamp(now, UTC)
        start, end = begin - timedelta(days=1), begin + timedelta(days=2000)
        self.root = authority(name, start=start, end=end)
        self.signer = self.root
        if below_a_root:
            self.signer = authority(f"{name} below", issuer=self.root, start=start, end=end)

    @property
    def trust_pem(self) -> bytes:
        """The authority to trust."""
        return pem(self.root.certificate)

    def secret_data(self, certificate: Object, now: float) -> dict[str, str]:
        """The content of the Secret for a Certificate."""
        made = self._sign(certificate["spec"], datetime.fromtimestamp(now, UTC))
        above = () if self.signer is self.root else (self.signer.certificate,)
        return {
            "tls.crt": _encoded(pem(made.certificate, *above)),
            "tls.key": _encoded(key_pem(made.key)),
            "ca.crt": _encoded(pem(authority("not to be trusted").certificate)),
        }

    def _sign(self, spec: Object, begin: datetime) -> Issued:
        assert spec["privateKey"] == {
            "algorithm": "ECDSA",
            "size": 256,
            "encoding": "PKCS8",
            "rotationPolicy": "Always",
        }
        assert set(spec["usages"]) >= {"client auth", "server auth"}
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, spec["subject"]["organizations"][0]),
                x509.NameAttribute(NameOID.COMMON_NAME, spec["commonName"]),
            ]
        )
        names: list[x509.GeneralName] = [x509.DNSName(each) for each in spec.get("dnsNames", [])]
        names += [x509.UniformResourceIdentifier(each) for each in spec["uris"]]
        hours = int(spec["duration"].split("h")[0])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.signer.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin - timedelta(seconds=1))
            .not_valid_after(begin + timedelta(hours=hours))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(self.usages), critical=False)
            .sign(self.signer.key, hashes.SHA256())
        )
        return Issued(made, key)


def ready(now: float) -> Object:
    """The status of a Certificate that was issued."""
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "Certificate is up to date",
    }
    return {"conditions": [{**condition, "lastTransitionTime": text(now)}]}


def waiting(since: float) -> Object:
    """The status of a Certificate that has not been issued yet."""
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "DoesNotExist",
        "message": "Issuing certificate as Secret does not exist",
    }
    return {"conditions": [{**condition, "lastTransitionTime": text(since)}]}


def failed(now: float) -> Object:
    """The status of a Certificate that the issuer has refused."""
    condition = {
        "type": "Issuing",
        "status": "False",
        "reason": "Failed",
        "message": "The certificate request has failed to complete and will be retried",
    }
    return {**waiting(now), "lastFailureTime": text(now)} | {
        "conditions": [*waiting(now)["conditions"], {**condition, "lastTransitionTime": text(now)}]
    }


def text(seconds: float) -> str:
    """A time in Kubernetes' format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
