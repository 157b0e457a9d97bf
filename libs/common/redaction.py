"""Keep what this process must not tell out of whatever leaves it as text: logs, rows, records, traces.

What is secret is known in two ways. Every value of a secret setting (`Secret`) and every bearer token is
noted where it is read, and looked for as it is, percent-encoded and as JSON writes it. And whatever stands
where secrets stand is taken out unseen: in a URL the user, the query and the fragment, behind `Bearer` and
`Basic` the credential.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import AfterValidator, SecretStr

HIDDEN = "[redacted]"
# A shorter one can't be looked for: it would take words out of every text, and anybody guesses it anyhow.
SHORTEST_SECRET = 8

_URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20})://([^\s\"'<>\\]+)", re.IGNORECASE)
_CREDENTIAL = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
# Queries of addresses that are written without their host.
_PARAMETER = re.compile(
    r"([?&](?:x-amz-[a-z-]+|x-goog-[a-z-]+|sig(?:nature)?|(?:access_?)?token|(?:api_?)?key|password"
    r"|secret\w*|\w*_secret\w*|session_token|access_key_id|credential)=)[^\s&\"'<>\\]+",
    re.IGNORECASE,
)

# The secrets of a process belong to the process, as its log and its tracer do: who reads one in notes it, and
# whoever writes can't be handed them one by one.
_known: set[str] = set()


def note_secret(value: str) -> None:
    """Never tell `value` from now on; shorter ones than `SHORTEST_SECRET` can't be looked for."""
    if len(value) >= SHORTEST_SECRET:
        _known.update({value, quote(value, safe=""), json.dumps(value)[1:-1], value.replace("/", r"\/")})


def _noted(secret: SecretStr) -> SecretStr:
    note_secret(secret.get_secret_value())
    return secret


Secret = Annotated[SecretStr, AfterValidator(_noted)]
"""The type of a setting that is secret: its value is noted as it is read."""


def redacted(text: str) -> str:
    """Return `text` without what is secret in it."""
    for secret in sorted(_known, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    if "://" in text:
        text = _URL.sub(_bare_url, text)
    if "=" in text:
        text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    return _CREDENTIAL.sub(rf"\1 {HIDDEN}", text)


def quoted(foreign: str | bytes, most: int) -> str:
    """Return the beginning of what a stranger said, at most `most` characters; a secret isn't cut in half."""
    text = foreign.decode("utf-8", "replace") if isinstance(foreign, bytes) else foreign
    return redacted(text)[:most]


def redacted_value(value: Any) -> Any:
    """Return a JSON-like value (dataclasses are such) with every text in it redacted, keys aside.

    What is neither a text nor a number nor holds such is returned as its redacted text.
    """
    if isinstance(value, str):
        return redacted(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {name: redacted_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted_value(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return redacted_value(asdict(value))
    return redacted(str(value))


def _bare_url(match: re.Match[str]) -> str:
    scheme, rest = match.groups()
    place, mark, _ = _split(rest)
    host, slash, path = place.partition("/")
    shown = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    return f"{shown}{mark}{HIDDEN}" if mark else shown


def _split(rest: str) -> tuple[str, str, str]:
    """Return what stands before the query or fragment, the mark that begins it, and it."""
    found = re.search(r"[?#]", rest)
    if found is None:
        return rest, "", ""
    # a question mark that ends a sentence begins no query
    tail = rest[found.end() :]
    return (rest[: found.start()], found.group(), tail) if tail.strip(".,;:!)]}") else (rest, "", "")
