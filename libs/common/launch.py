"""Exec shim: set what must be set in the child itself, then become the wanted program.

Run as ``python -I -S launch.py SIGNAL PARENT_PID UID GID MEMORY_BYTES PROGRAM ARG...`` ("-" leaves one out).
It is a program of its own, and not a ``preexec_fn``, because code between fork and exec of a threaded
process may deadlock; and it imports nothing that is slow.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _death_signal(signal_number: int, parent_pid: int) -> "Callable[[], None]":
    """Return the call that asks the kernel for a signal when the parent dies.

    All is loaded here, while we still are who we were: the next user may be unable to read Python's library.
    """
    import ctypes  # 10 ms that only this branch needs

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    pr_set_pdeathsig = 1

    def ask() -> None:
        if prctl(pr_set_pdeathsig, signal_number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent_pid:  # it died before we asked
            raise SystemExit("the parent is gone")

    return ask


def main(arguments: list[str]) -> None:
    """Apply limits, user and death signal in the order the kernel needs, then exec."""
    signal_number, parent_pid, uid, gid, memory_bytes, *program = arguments
    ask_for_signal = None
    if signal_number != "-" and sys.platform == "linux":
        ask_for_signal = _death_signal(int(signal_number), int(parent_pid))
    if memory_bytes != "-":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    # After setuid: changing credentials clears the death signal.
    if ask_for_signal is not None:
        ask_for_signal()
    os.execv(program[0], program)  # noqa: S606  (becoming the program is the purpose)


if __name__ == "__main__":
    main(sys.argv[1:])
