"""Send this process's own token with every call; a new token in its file is used from the next call on."""

from __future__ import annotations

import threading
from pathlib import Path

import grpc
import structlog

from libs.common.redaction import note_secret

log = structlog.get_logger(__name__)


class BearerToken(grpc.AuthMetadataPlugin):
    """Read the token from a file. gRPC sends it over TLS and over loopback, never in plaintext beyond."""

    def __init__(self, path: Path) -> None:
        """Read the token. Raises OSError or ValueError saying what is wrong."""
        self._path = path
        self._lock = threading.Lock()
        self._version = 0
        self._token = ""
        self._look()

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        """Give the metadata of one call; gRPC calls this from threads of its own."""
        try:
            token = self._look()
        except (OSError, ValueError) as error:  # it is just being written: the old one will do
            log.warning("token.unreadable", file=str(self._path), error=str(error))
            token = self._token
        callback((("authorization", f"Bearer {token}"),), None)

    def _look(self) -> str:
        with self._lock:
            version = self._path.stat().st_mtime_ns
            if version != self._version:
                token = self._path.read_text(encoding="ascii").strip()
                if not token or not token.isprintable() or " " in token:
                    raise ValueError(f"{self._path} must hold one token in one line")
                note_secret(token)
                self._token, self._version = token, version
            return self._token
