"""Which of the system's errors are this machine's, whatever it was working on."""

from __future__ import annotations

import errno

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_ILL = frozenset({errno.EIO, errno.EROFS})
# Neither descriptors, nor processes, nor memory: for this machine's other work as well.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN})


def is_machines(error: BaseException) -> bool:
    """Tell whether an error says that the machine has no room, is ill or exhausted.

    Every other error of the system (a name that is too long, a file that isn't there) may well be due to what
    was worked on.
    """
    return isinstance(error, OSError) and error.errno in _FULL | _ILL | _EXHAUSTED


def reason_of(error: OSError) -> str:
    """Return the stable reason of an error of the machine, in capitals."""
    return "DISK_FULL" if error.errno in _FULL else errno.errorcode.get(error.errno or 0, "OS_ERROR")
