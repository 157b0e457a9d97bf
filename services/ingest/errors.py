"""Domain errors of the ingest context: one class for each fact; the reason is part of the contract."""

from __future__ import annotations

from libs.common.errors import DomainError, Kind


class UnknownKey(DomainError):
    """No key that works has this id (domain.md 3.1)."""

    kind = Kind.UNAUTHENTICATED
    reason = "UNKNOWN_KEY"


class BadSignature(DomainError):
    """The signature, or something it is made of, is missing, malformed or another's (domain.md 3.1)."""

    kind = Kind.UNAUTHENTICATED
    reason = "BAD_SIGNATURE"


class ClockSkew(DomainError):
    """The signature's time is outside of the window; metadata `server_time` has ours (domain.md 3.1)."""

    kind = Kind.UNAUTHENTICATED
    reason = "CLOCK_SKEW"


class NonceReplayed(DomainError):
    """This spider has used this nonce before (domain.md 3.1)."""

    kind = Kind.ALREADY_EXISTS
    reason = "NONCE_REPLAYED"


class RequestIdReused(DomainError):
    """The request id is known with other content (domain.md 5)."""

    kind = Kind.ALREADY_EXISTS
    reason = "REQUEST_ID_REUSED"


class SpiderExists(DomainError):
    """Another spider has this name."""

    kind = Kind.ALREADY_EXISTS
    reason = "SPIDER_EXISTS"


class SpiderNotFound(DomainError):
    """No spider has this id."""

    kind = Kind.NOT_FOUND
    reason = "SPIDER_NOT_FOUND"


class KeyNotFound(DomainError):
    """No key has this id."""

    kind = Kind.NOT_FOUND
    reason = "KEY_NOT_FOUND"


class TwoKeysWork(DomainError):
    """The spider has two keys that work already; a third would never be revoked."""

    kind = Kind.FAILED_PRECONDITION
    reason = "TWO_KEYS_WORK"


class RateLimited(DomainError):
    """The key's budget, which all servers share, is used up for the moment."""

    kind = Kind.RESOURCE_EXHAUSTED
    reason = "RATE_LIMITED"


class ActorRequired(DomainError):
    """What can't be undone needs a name in `x-frontrow-actor`."""

    kind = Kind.INVALID_ARGUMENT
    reason = "ACTOR_REQUIRED"


class ArticleUnknown(DomainError):
    """No job has this address, so that its kind and source can't be told."""

    kind = Kind.NOT_FOUND
    reason = "ARTICLE_UNKNOWN"


class FirstJobGone(DomainError):
    """The request id is known, and its job can't be read: purged just now, or the database went away."""

    kind = Kind.ABORTED
    reason = "FIRST_JOB_GONE"


class JobNotFound(DomainError):
    """No job has this id."""

    kind = Kind.NOT_FOUND
    reason = "JOB_NOT_FOUND"


class Superseded(DomainError):
    """The job is worked on by another task now (domain.md 2.1)."""

    kind = Kind.FAILED_PRECONDITION
    reason = "SUPERSEDED"


class LeaseLost(DomainError):
    """A newer run of the task was seen, or the job has ended: this run may not write (domain.md 2.1)."""

    kind = Kind.ABORTED
    reason = "LEASE_LOST"


class SealingKeyChanged(DomainError):
    """A stored secret was sealed with another server key than the one configured."""

    kind = Kind.FAILED_PRECONDITION
    reason = "SEALING_KEY_CHANGED"
