"""What a run's failure is: the recording's, its surroundings', or nobody's to tell."""

from __future__ import annotations

import re

from libs.common import machine
from libs.common.fetch_problems import FetchProblem, HostPaused, MachineTrouble
from libs.common.objects import StoreUnavailable
from services.asr.media.errors import MediaError, MediaInfrastructure
from services.asr.worker.engine import EngineUnreachable
from services.asr.worker.model import NoEngine
from services.asr.worker.peers import AsrUnreachable

# Trouble around a run, not of its recording: the task is given back uncharged, and the worker backs off.
_INFRASTRUCTURE = (
    MachineTrouble,
    MediaInfrastructure,
    StoreUnavailable,
    AsrUnreachable,
    EngineUnreachable,
    NoEngine,
)
# Before a capital that begins a word: OSError is OS_ERROR.
_INSIDE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class RunTimeout(Exception):
    """The run took longer than it may (domain.md 2.5)."""


class NoSpeech(MediaError):
    """Nobody speaks in the recording."""

    reason = "NO_SPEECH"


class MediaLost(MediaError):
    """The stored recording is gone."""

    reason = "MEDIA_LOST"


def reason_of(error: BaseException) -> str:
    """Return the stable reason of a failure, in capitals."""
    if isinstance(error, HostPaused):
        return "SERVER_BUSY"
    if isinstance(error, OSError) and machine.is_machines(error):
        return machine.reason_of(error)
    given = getattr(error, "reason", None)
    return given if isinstance(given, str) and given else _upper_snake(type(error).__name__)


def is_permanent(error: Exception) -> bool:
    """Tell whether another try would end the same: the bytes, or their address, are of no use."""
    return isinstance(error, MediaError) or (isinstance(error, FetchProblem) and not error.transient)


def is_infrastructure(error: Exception) -> bool:
    """Tell whether the surroundings are at fault, whatever the recording."""
    return machine.is_machines(error) or isinstance(error, _INFRASTRUCTURE)


def _upper_snake(name: str) -> str:
    return _INSIDE.sub("_", name).upper()
