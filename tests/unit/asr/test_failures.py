"""What a failure of a run is: permanent, charged, or nobody's."""

import errno

import pytest

from libs.common.fetch_problems import FetchProblem, HostPaused
from libs.common.objects import StoreUnavailable
from services.asr.media.errors import (
    DiskFull,
    FfmpegKilled,
    FfmpegTimeout,
    NoAudioTrack,
    OutOfMemory,
    SystemTrouble,
)
from services.asr.worker.engine import EngineFailed, EngineUnreachable
from services.asr.worker.failures import is_infrastructure, is_permanent, reason_of
from services.asr.worker.model import NoEngine
from services.asr.worker.peers import AsrUnreachable

PERMANENT, CHARGED, NOBODYS = (True, False), (False, False), (False, True)


@pytest.mark.parametrize(
    ("error", "reason", "kind"),
    [
        (NoAudioTrack("x"), "NO_AUDIO_TRACK", PERMANENT),
        (FetchProblem("HTTP_STATUS", "404"), "HTTP_STATUS", PERMANENT),
        (FetchProblem("TIMEOUT", "x"), "TIMEOUT", CHARGED),
        (HostPaused("host", 60), "SERVER_BUSY", CHARGED),
        (FfmpegTimeout("x"), "FFMPEG_TIMEOUT", CHARGED),
        (FfmpegKilled("x"), "FFMPEG_KILLED", CHARGED),
        (OutOfMemory("x"), "ENOMEM", CHARGED),
        (EngineFailed("x"), "ENGINE_FAILED", CHARGED),
        (FileNotFoundError(errno.ENOENT, "x"), "FILE_NOT_FOUND_ERROR", CHARGED),
        (OSError(errno.EINVAL, "x"), "OS_ERROR", CHARGED),
        (OSError("without a number"), "OS_ERROR", CHARGED),
        (OSError(errno.ENAMETOOLONG, "x"), "OS_ERROR", CHARGED),
        (OSError(errno.ENOSPC, "x"), "DISK_FULL", NOBODYS),
        (OSError(errno.EDQUOT, "x"), "DISK_FULL", NOBODYS),
        (OSError(errno.EIO, "x"), "EIO", NOBODYS),
        (OSError(errno.EROFS, "x"), "EROFS", NOBODYS),
        (OSError(errno.EMFILE, "x"), "EMFILE", NOBODYS),
        (BlockingIOError(errno.EAGAIN, "no more processes"), "EAGAIN", NOBODYS),
        (DiskFull("x"), "DISK_FULL", NOBODYS),
        (SystemTrouble("EROFS", "x"), "EROFS", NOBODYS),
        (EngineUnreachable("x"), "ENGINE_UNREACHABLE", NOBODYS),
        (NoEngine("x"), "NO_ENGINE", NOBODYS),
        (AsrUnreachable("x"), "ASR_UNREACHABLE", NOBODYS),
        (StoreUnavailable("x"), "STORE_UNAVAILABLE", NOBODYS),
    ],
)
def test_a_failure_has_a_reason_and_one_kind(error: Exception, reason: str, kind: tuple[bool, bool]) -> None:
    assert reason_of(error) == reason
    assert (is_permanent(error), is_infrastructure(error)) == kind
