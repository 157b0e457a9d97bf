"""A certificate authority of the tests' own."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """Issues certificates for 127.0.0.1 into a folder; `roots` is what a peer trusts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Frontrow's tests")
        self._serial = 1
        extension = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._begin(self._name, self._key).add_extension(extension, critical=True)
        self.roots = folder / "ca.pem"
        self.roots.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Write a certificate and its key, in place of those that had this name; return their paths."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = self._begin(_name(name), key).add_extension(names, critical=False)
        certificate_path, key_path = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate_path.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate_path, key_path

    def _begin(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        self._serial += 1
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(self._serial)
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
