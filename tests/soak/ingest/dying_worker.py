"""An ingest worker that meets its end at a chosen step: `python -m tests.soak.ingest.dying_worker STEP PID`.

STEP is `before NAME` or `after NAME`, NAME a call that the worker makes for a job. PID is the process that is
killed with -9 then, once: this one for 0.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from libs.common.objects.local import LocalStore
from libs.common.objects.s3 import S3Store
from libs.common.server import run
from services.access import RULES
from services.ingest.worker.__main__ import _mount
from services.ingest.worker.peers import IngestPeer, IntakePeer

STEPS: dict[str, tuple[type, ...]] = {
    "begin": (IngestPeer,),
    "check_source": (IntakePeer,),
    "find_official": (IntakePeer,),
    "reserve": (IntakePeer,),
    "move_file": (LocalStore, S3Store),
    "confirm": (IntakePeer,),
    "record": (IngestPeer,),
    "create_draft": (IntakePeer,),
    "done": (IngestPeer,),
}
Method = Callable[..., Awaitable[Any]]


def arm(when: str, name: str, pid: int) -> None:
    """Let the first call of a step be the end of a process."""
    left = [pid or os.getpid()]

    def kill() -> None:
        if left:
            os.kill(left.pop(), signal.SIGKILL)

    def around(method: Method) -> Method:
        async def call(self: Any, *given: Any, **more: Any) -> Any:
            # a worker asks for what it kept before it has anything to announce
            empty = name == "reserve" and not given[1]
            if when == "before" and not empty:
                kill()
            answer = await method(self, *given, **more)
            if when == "after" and not empty:
                kill()
            return answer

        return call

    for owner in STEPS[name]:
        setattr(owner, name, around(getattr(owner, name)))


if __name__ == "__main__":
    arm(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(run("ingest-worker", _mount, RULES))
