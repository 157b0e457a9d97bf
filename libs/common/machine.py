"""Which of the system's errors are this machine's, whatever it was working on."""

from __future__ import annotations

import errno
import os

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_ILL = frozenset({errno.EIO, errno.EROFS})
# Neither descriptors, nor processes, nor memory: for this machine's other work as well.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN})
_MACHINES = _FULL | _ILL | _EXHAUSTED
# By the longest text first: "Too many open files" is the beginning of another.
_TEXTS = sorted(((os.strerror(number), number) for number in _MACHINES), key=lambda told: -len(told[0]))


def is_machines(error: BaseException) -> bool:
    """Tell whether an error says that the machine has no room, is ill or exhausted.

    Every other error of the system (a name that is too long, a file that isn't there) may well be due to what
    was worked on.
    """
    return isinstance(error, OSError) and error.errno in _MACHINES


def told_in(said: str) -> OSError | None:
    """Find the machine's error that a program told of last; None: it told of none."""
    for line in reversed(said.splitlines()):
        for told, number in _TEXTS:
            if told in line:
                return OSError(number, told)
    return None


def is_full(error: OSError) -> bool:
    """Tell whether there is no room on a disk."""
    return error.errno in _FULL


def reason_of(error: OSError) -> str:
    """Return the stable reason of an error of the machine, in capitals."""
    return "DISK_FULL" if is_full(error) else errno.errorcode.get(error.errno or 0, "OS_ERROR")


def without_paths(error: BaseException) -> str:
    """Say what an error says, but for the paths of this machine that the system's errors name."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
