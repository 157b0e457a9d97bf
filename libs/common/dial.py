"""Tell a worker, whose library knows no settings of ours, how to reach the task service."""

from __future__ import annotations

from frontrow.worker import Dial

from libs.common.credentials import channel_credentials
from libs.common.settings import TransportSettings


def dial(target: str, transport: TransportSettings) -> Dial:
    """Return `target` with the security that every other channel of this process has."""
    credentials = channel_credentials(target, transport)
    return Dial(target, credentials, plaintext=credentials is None)
