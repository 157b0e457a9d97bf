"""Sign certificates: an authority's own, and those of processes by it. ECDSA on P-256 throughout."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_LASTS = timedelta(days=3650)
_CERTIFICATE_LASTS = timedelta(days=398)
_CLOCKS_DIFFER = timedelta(minutes=5)

_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Unusable(Exception):
    """Say what is wrong with a certificate, a key or a host's name."""


class Pair(NamedTuple):
    """A certificate and the key that belongs to it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_authority(now: datetime) -> Pair:
    """Make an authority that signs itself, good for ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Frontrow authority {now:%Y-%m-%d}")
    certificate = (
        _begun(name, name, key.public_key(), (now, now + _AUTHORITY_LASTS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate, key)


def issue(name: str, hosts: Sequence[str], authority: Pair, now: datetime) -> Pair:
    """Make a process's certificate, for serving and calling, with a key of its own.

    Good for a year and a month, never longer than the authority. `hosts` are DNS names or addresses at which
    it may serve. Raises Unusable for a host that is neither.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + _CERTIFICATE_LASTS, authority.certificate.not_valid_after_utc)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        _begun(_name(name), authority.certificate.subject, key.public_key(), (now, until))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Pair(certificate, key)


def is_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Tell whether an authority signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def belongs(pair: Pair) -> bool:
    """Tell whether a key is the certificate's."""
    public = pair.certificate.public_key()
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    return public.public_bytes(*form) == pair.key.public_key().public_bytes(*form)


def hosts_in(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the names and addresses of a certificate; empty for an authority's."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def certificate_of(pem: bytes) -> x509.Certificate:
    """Read a certificate. Raises Unusable."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise Unusable("no PEM certificate") from error


def key_of(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Read a key. Raises Unusable."""
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise Unusable("no PEM key without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Unusable("no key on an elliptic curve")
    return key


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as it goes into a file."""
    return certificate.public_bytes(Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as it goes into a file that its owner alone may read."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, good: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(good[0] - _CLOCKS_DIFFER)
        .not_valid_after(good[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*granted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: name in granted for name in _USAGES})


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise Unusable(f"{host!r} is neither a plain DNS name nor an address") from error
