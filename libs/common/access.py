"""Who may call what: bearer tokens with roles from a file, and a table of the roles that methods ask for.

The file holds hashes of tokens, never a token. It is read again when it changes, so that a token is added,
replaced or withdrawn without a restart:

    [[tokens]]
    subject = "ingest-worker"
    roles = ["worker"]
    sha256 = "5e88…"                    # of the token's text
    expires = 2027-01-31T00:00:00Z      # may be left out
"""

from __future__ import annotations

import hashlib
import hmac
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from libs.common.errors import DomainError, Kind

log = structlog.get_logger(__name__)

ADMIN = "admin"
"""The role that may call everything."""
ANYONE = frozenset({"anyone"})
"""Entry of the table for a method that needs no token."""

Table = Mapping[str, frozenset[str]]
"""Full name of a method (`/package.Service/Method`) → the roles of which one is needed."""


@dataclass(frozen=True)
class Rules:
    """Who may call what.

    `processes` are the roles of programs that act for others: their word on who acts (x-frontrow-actor)
    counts; anybody else acts as the token's subject (domain.md 5). `metrics` are the roles that may read the
    metrics of a process.
    """

    table: Table
    processes: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()


_LOOK_SECONDS = 1.0
_SCHEME = "bearer "


class TokenMissing(DomainError):
    """Refuse a call without a token where one is needed."""

    kind = Kind.UNAUTHENTICATED
    reason = "TOKEN_MISSING"


class TokenUnknown(DomainError):
    """Refuse a token that isn't in the file, or whose time is over; which of both isn't told."""

    kind = Kind.UNAUTHENTICATED
    reason = "TOKEN_UNKNOWN"


class RoleMissing(DomainError):
    """Refuse a caller who is known and may not call this method."""

    kind = Kind.PERMISSION_DENIED
    reason = "ROLE_MISSING"


class Principal(BaseModel):
    """Who a token stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: str = Field(min_length=1, max_length=200)
    roles: frozenset[str] = Field(min_length=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$", repr=False)
    expires: AwareDatetime | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[Principal] = Field(default_factory=list)


class TokenFile:
    """The tokens that are valid now; a look at the file is taken once a second at most."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises OSError or ValueError saying what is wrong with it."""
        self._path = path
        self._looked = time.monotonic()
        self._version = self._stamp()
        self._principals = read_tokens(path)

    def find(self, token: str) -> Principal | None:
        """Return whom a token stands for; None when it is unknown or its time is over.

        All hashes are compared, each in constant time: how long it takes tells nothing.
        """
        self._look()
        digest = hashlib.sha256(token.encode()).hexdigest()
        return _valid([known for known in self._principals if hmac.compare_digest(known.sha256, digest)])

    def now(self, before: Principal) -> Principal | None:
        """Return what the token of somebody who was found stands for by now; None when it is over or gone."""
        self._look()
        return _valid([known for known in self._principals if known.sha256 == before.sha256])

    def _look(self) -> None:
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            version = self._stamp()
            if version == self._version:
                return
            self._principals = read_tokens(self._path)
            self._version = version
            log.info("tokens.read", file=str(self._path), tokens=len(self._principals))
        except (OSError, ValueError) as error:  # half written, or wrong: what was valid stays so
            log.warning("tokens.unreadable", file=str(self._path), error=str(error))

    def _stamp(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns


class Access:
    """Decide for each call. What isn't in the table nobody but an admin may call."""

    def __init__(self, rules: Rules, tokens: TokenFile) -> None:
        self._rules = rules
        self._tokens = tokens

    def admit(self, method: str, authorization: str | None) -> Principal | None:
        """Return who calls; None where no token is needed and none was sent.

        Raises:
            TokenMissing, TokenUnknown: who calls isn't known.
            RoleMissing: the caller has none of the roles that the method asks for.
        """
        allowed = self._rules.table.get(method, frozenset())
        if authorization is None and allowed == ANYONE:
            return None
        principal = self._identify(authorization)
        if _fits(principal, allowed):
            return principal
        raise RoleMissing(
            f"{principal.subject} may not call {method}: it takes one of the roles {_listed(allowed)}",
            method=method,
            roles=_listed(allowed),
        )

    def still_admits(self, method: str, principal: Principal) -> bool:
        """Tell whether who was let in would be let in now, too: by a token that is there, with its roles."""
        known = self._tokens.now(principal)
        return known is not None and _fits(known, self._rules.table.get(method, frozenset()))

    def admit_to_metrics(self, authorization: str | None) -> Principal:
        """Return who reads the metrics of this process. Raises as `admit` does."""
        principal = self._identify(authorization)
        if principal.roles & (self._rules.metrics | {ADMIN}):
            return principal
        roles = _listed(self._rules.metrics)
        raise RoleMissing(f"{principal.subject} may not read metrics: that takes one of {roles}", roles=roles)

    def is_process(self, principal: Principal) -> bool:
        """Tell whether a caller is a program that acts for others."""
        return bool(principal.roles & self._rules.processes)

    def _identify(self, authorization: str | None) -> Principal:
        if not authorization:
            raise TokenMissing("send metadata `authorization: Bearer <token>`; an admin gives tokens out")
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise TokenMissing("metadata `authorization` must be `Bearer <token>`")
        principal = self._tokens.find(authorization[len(_SCHEME) :].strip())
        if principal is None:
            raise TokenUnknown("this token isn't known here, or its time is over; ask an admin for a new one")
        return principal


def _valid(found: list[Principal]) -> Principal | None:
    """Return the first whose time isn't over, None when there is none."""
    now = datetime.now(UTC)
    return next((known for known in found if known.expires is None or known.expires > now), None)


def _fits(principal: Principal, allowed: frozenset[str]) -> bool:
    return allowed == ANYONE or bool(principal.roles & (allowed | {ADMIN}))


def _listed(roles: frozenset[str]) -> str:
    return ", ".join(sorted(roles | {ADMIN}))


def read_tokens(path: Path) -> tuple[Principal, ...]:
    """Read a file of tokens. Raises OSError or ValueError, which names the entry at fault and no hash."""
    try:
        return tuple(_File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).tokens)
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        )
        raise ValueError(f"{path}: {'; '.join(problems)}") from None
