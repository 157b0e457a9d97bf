"""Seal spiders' secrets, so that a dump of the database signs nothing (domain.md 3.1)."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from libs.common.redaction import note_secret
from services.ingest.errors import SealingKeyChanged

_KEY_BYTES = 32
_NONCE_BYTES = 12


class Sealer:
    """Seal and open secrets with one key of 32 bytes (AES-256-GCM); a box fits its key id only."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def from_hex(cls, text: str) -> Sealer:
        """Make a sealer of 64 hex digits. Raises ValueError."""
        note_secret(text.strip())
        try:
            key = bytes.fromhex(text.strip())
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise ValueError(
                "the sealing key (FRONTROW_INGEST_SEALING_KEY) must be 64 hex digits: openssl rand -hex 32"
            )
        return cls(key)

    @classmethod
    def from_file(cls, path: Path) -> Sealer:
        """Make a sealer of the key in a file; a missing file is made first, readable by its owner alone.

        Servers that start at once agree on one key: the file appears whole, and only the first one counts.
        """
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(_KEY_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(fresh, path)
            except FileExistsError:
                pass  # another server was quicker: its key is the one
            finally:
                fresh.unlink()
        return cls.from_hex(path.read_text())

    def seal(self, key_id: str, secret: str) -> bytes:
        """Return the box for a secret."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), key_id.encode())

    def open(self, key_id: str, box: bytes) -> str:
        """Return the secret in a box.

        Raises:
            SealingKeyChanged: the box was sealed with another key, or for another key id.
        """
        try:
            return self._cipher.decrypt(box[:_NONCE_BYTES], box[_NONCE_BYTES:], key_id.encode()).decode()
        except InvalidTag as error:
            raise SealingKeyChanged(
                "the spider's secret was sealed with another server key: restore FRONTROW_INGEST_SEALING_KEY"
                " (or its file), or make a new key for the spider"
            ) from error
