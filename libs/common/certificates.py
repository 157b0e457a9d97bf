"""Keep a folder of certificates: what servers beyond loopback, and the processes that call them, stand on.

FOLDER/authority/certificate.pem, key.pem                signs; no process needs the key
FOLDER/<name>/certificate.pem, key.pem, authority.pem    all that one process needs
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from libs.common.authority import (
    Pair,
    Unusable,
    belongs,
    certificate_of,
    certificate_pem,
    hosts_in,
    is_by,
    issue,
    key_of,
    key_pem,
    new_authority,
)

__all__ = ["RENEW_BEFORE", "Made", "Unusable", "held", "make"]

CERTIFICATE, KEY, AUTHORITY = "certificate.pem", "key.pem", "authority.pem"
RENEW_BEFORE = timedelta(days=90)
"""A certificate that has no more than this left is renewed."""

_AUTHORITYS = "authority"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
# A process is also asked for its health where it runs.
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Made:
    """What became of one name. `why` is empty for a certificate that is good and stays."""

    name: str
    hosts: tuple[str, ...]
    expires: datetime
    why: str = ""


def make(
    folder: Path,
    wanted: Mapping[str, Sequence[str]],
    trusting: Sequence[str] = (),
    *,
    now: datetime | None = None,
) -> list[Made]:
    """Bring a folder up to date: an authority where there is none, what is missing or soon over of `wanted`.

    `wanted` has the hosts of each process beside its name; `trusting` name folders that get the authority's
    certificate alone, for callers who show none. May be run at any time, and by several at once. An authority
    is never replaced, and a good certificate stays. Returns the authority's outcome first.

    Raises:
        Unusable: the authority is broken, half there or over, or a name can't be in a certificate.
    """
    for name in (*wanted, *trusting):
        if not _NAME.fullmatch(name) or name == _AUTHORITYS:
            raise Unusable(
                f"{name!r} can't be a process's name: small letters, digits, '.' and '-', not {_AUTHORITYS!r}"
            )
    moment = now or datetime.now(UTC)
    home = folder / _AUTHORITYS
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(home):
        authority, why = _authority(home, moment)
        made = [Made(_AUTHORITYS, (), authority.not_valid_after_utc, why)]
        made += [_bring(folder / name, hosts, authority, moment) for name, hosts in wanted.items()]
        for name in (*wanted, *trusting):
            (folder / name).mkdir(exist_ok=True)
            _write(folder / name / AUTHORITY, certificate_pem(authority), mode=0o644)
    return made


def held(folder: Path) -> list[Made]:
    """Return the certificates in a folder, the authority's first. Raises Unusable for one that is broken."""
    found = []
    for path in sorted(folder.glob(f"*/{CERTIFICATE}")):
        certificate = _certificate(path)
        found.append(Made(path.parent.name, hosts_in(certificate), certificate.not_valid_after_utc))
    return sorted(found, key=lambda one: one.name != _AUTHORITYS)


def _authority(home: Path, now: datetime) -> tuple[x509.Certificate, str]:
    path = home / CERTIFICATE
    if path.exists():
        certificate = _certificate(path)
        if certificate.not_valid_after_utc <= now:
            raise Unusable(
                f"the authority {path} is over, and it is never replaced here: make another one in a new "
                "folder, and let everybody trust both until all have a certificate of the new one"
            )
        return certificate, ""
    if (home / KEY).exists():
        raise Unusable(f"{home / KEY} is there without its certificate: bring {path} back, or remove the key")
    made = new_authority(now)
    _write(home / KEY, key_pem(made.key), mode=0o600)
    _write(path, certificate_pem(made.certificate), mode=0o644)
    return made.certificate, "there was none"


def _bring(folder: Path, hosts: Sequence[str], authority: x509.Certificate, now: datetime) -> Made:
    names = tuple(dict.fromkeys((folder.name, *hosts, *_LOCAL)))
    why = _lacking(folder, names, authority, now)
    if not why:
        return Made(folder.name, names, _certificate(folder / CERTIFICATE).not_valid_after_utc)
    made = issue(folder.name, names, _signing(folder.parent / _AUTHORITYS, authority), now)
    folder.mkdir(exist_ok=True)
    # both are written before either is replaced, so that a server that looks now sees one of the two pairs
    key = _draft(folder / KEY, key_pem(made.key), mode=0o600)
    certificate = _draft(folder / CERTIFICATE, certificate_pem(made.certificate), mode=0o644)
    key.replace(folder / KEY)
    certificate.replace(folder / CERTIFICATE)
    return Made(folder.name, names, made.certificate.not_valid_after_utc, why)


def _lacking(folder: Path, names: Sequence[str], authority: x509.Certificate, now: datetime) -> str:
    """Return why a process needs a new certificate; empty when what it has is good."""
    if not (folder / CERTIFICATE).exists() or not (folder / KEY).exists():
        return "there was none"
    try:
        pair = Pair(_certificate(folder / CERTIFICATE), _key(folder / KEY))
    except Unusable:
        return "it was broken"
    if not is_by(pair.certificate, authority):
        return "it was another authority's"
    if not belongs(pair):
        return "its key was another one's"
    if set(hosts_in(pair.certificate)) != set(names):
        return "its names were others"
    # one that ends with the authority can't be made to last longer
    good_until = min(now + RENEW_BEFORE, authority.not_valid_after_utc - timedelta(days=1))
    return "its time was nearly over" if pair.certificate.not_valid_after_utc <= good_until else ""


def _signing(home: Path, authority: x509.Certificate) -> Pair:
    """Return the authority with its key, which may be kept elsewhere till something is to be signed."""
    if not (home / KEY).exists():
        raise Unusable(
            f"{home / KEY} is not there, and a certificate is to be signed: bring it back for that"
        )
    pair = Pair(authority, _key(home / KEY))
    if not belongs(pair):
        raise Unusable(f"{home / KEY} is not the key of the certificate beside it")
    return pair


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    with (home / ".lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _certificate(path: Path) -> x509.Certificate:
    try:
        return certificate_of(path.read_bytes())
    except Unusable as error:
        raise Unusable(f"{path}: {error}") from error


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        return key_of(path.read_bytes())
    except Unusable as error:
        raise Unusable(f"{path}: {error}") from error


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Write a whole file or nothing; one that says the same stays as it is."""
    if not path.exists() or path.read_bytes() != content:
        _draft(path, content, mode=mode).replace(path)


def _draft(path: Path, content: bytes, *, mode: int) -> Path:
    """Write beside `path`, at no moment readable for more than `mode` says."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    return draft
