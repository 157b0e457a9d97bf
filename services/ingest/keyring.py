"""The opened secrets of the keys used lately, so that a signature costs no look into the database."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from libs.common.coalesce import Coalescer
from libs.common.db import Database
from services.ingest import repository_submit
from services.ingest.errors import BadSignature, UnknownKey
from services.ingest.sealing import Sealer
from services.ingest.signature import Credentials, check_signature

MAX_KEYS = 10_000
MOST_READ_AT_ONCE = 1_000


class KeyRing:
    """Checks signatures. A secret never changes; that its key still works is seen when a call enters.

    Whoever forges makes the server look into the database, but at once there is a single look for all such
    calls: they take neither its connections nor its time from those that are signed.
    """

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._reads = Coalescer[str, bytes | None](self._read_all, most=MOST_READ_AT_ONCE)
        self._secrets: OrderedDict[str, str] = OrderedDict()

    async def check(self, method: str, credentials: Credentials, request: bytes) -> None:
        """Return if a key that was known to work made the signature.

        Raises:
            UnknownKey: there is no such key, or it is revoked.
            BadSignature: it made another signature.
            SealingKeyChanged: the stored secret can't be opened.
        """
        key_id = credentials.key_id
        secret = self._secrets.get(key_id)
        if secret is not None:
            try:
                check_signature(secret, method, credentials, request)
            except BadSignature:
                pass  # read anew: that the key is revoked comes before its signature
            else:
                self._secrets.move_to_end(key_id)
                return
        try:
            secret = await self._read(key_id)
        except UnknownKey:
            self._secrets.pop(key_id, None)  # now alone: whoever forges doesn't make the key's own calls read
            raise
        check_signature(secret, method, credentials, request)
        self._secrets[key_id] = secret
        if len(self._secrets) > MAX_KEYS:
            self._secrets.popitem(last=False)

    async def drained(self) -> None:
        """Wait until no look into the database is under way."""
        await self._reads.drained()

    async def _read(self, key_id: str) -> str:
        box = await self._reads.submit(key_id)
        if box is None:
            raise unknown(key_id)
        return self._sealer.open(key_id, box)

    async def _read_all(self, key_ids: Sequence[str]) -> list[bytes | None]:
        async with self._database.begin() as session:
            boxes = await repository_submit.sealed_secrets(session, sorted(set(key_ids)))
        return [boxes.get(key_id) for key_id in key_ids]


def unknown(key_id: str) -> UnknownKey:
    """Return the refusal of a key that doesn't work."""
    return UnknownKey(f"no key {key_id[:64]!r} works: it was never made, or is revoked")
