"""Serve the task context alone: `python -m services.task`."""

from __future__ import annotations

import sys

from libs.common.migrate_at_start import upgrade_when_there
from libs.common.mounted import Mounted
from libs.common.server import run
from libs.common.settings import CommonSettings
from services.access import RULES
from services.task.mount import mount
from services.task.settings import TaskSettings


async def _mount() -> tuple[str, Mounted]:
    settings, common = TaskSettings(), CommonSettings.from_environment().of("task")
    await upgrade_when_there(common.database, "task")
    return settings.listen, await mount(settings, common)


if __name__ == "__main__":
    sys.exit(run("task", _mount, RULES))
