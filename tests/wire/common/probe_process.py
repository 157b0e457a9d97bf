"""Run the probe as a process of its own: `python -m tests.wire.common.probe_process 127.0.0.1:0`.

It prints what happens, one line each; the first is the address.
"""

import sys

from libs.common.access import Rules
from libs.common.server import Mounted, Stopping, run
from tests.wire.common.probe import Probe, Response


class Printed(list):
    """A list that prints what is appended."""

    def append(self, item: str) -> None:
        print(item, flush=True)


async def mount() -> tuple[str, Mounted]:
    """Mount a probe whose call lasts until the server stops."""
    stopping = Stopping()
    events = Printed()

    async def ask(_request, _context):
        events.append("asked")
        await stopping.wait()
        events.append("answering")
        return Response(text="finished")

    def on_stopping() -> None:
        events.append("stopping")
        stopping.set()

    probe = Probe(ask=ask, on_stopping=on_stopping, events=events)
    return sys.argv[1], probe.mounted()


if __name__ == "__main__":
    sys.exit(run("probe", mount, Rules({})))
