"""A probe in a process of its own whose calls cost processor time; its log tells the address."""

import sys
import time

from libs.common.access import Rules
from libs.common.server import Mounted, run
from tests.wire.common.probe import ASK, Probe, Response

WORK_SECONDS = 0.004


async def mount() -> tuple[str, Mounted]:
    """Mount a probe whose calls keep the one thread busy, but for urgent ones."""

    async def ask(request, _context):
        until = time.thread_time() + WORK_SECONDS
        while request.text != "urgent" and time.thread_time() < until:
            pass
        return Response(text="done")

    return "127.0.0.1:0", Probe(ask=ask, urgent={ASK: lambda request: request.text == "urgent"}).mounted()


if __name__ == "__main__":
    sys.exit(run("probe", mount, Rules({})))
