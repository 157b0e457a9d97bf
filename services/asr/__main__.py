"""Serve the asr context alone: `python -m services.asr`."""

import sys

from libs.common.migrate_at_start import upgrade_when_there
from libs.common.server import Mounted, run
from libs.common.settings import CommonSettings
from services.access import RULES
from services.asr.mount import mount
from services.asr.settings import AsrSettings


async def _mount() -> tuple[str, Mounted]:
    settings, common = AsrSettings(), CommonSettings.from_environment().of("asr")
    await upgrade_when_there(common.database, "asr")
    return settings.listen, await mount(settings, common)


if __name__ == "__main__":
    sys.exit(run("asr", _mount, RULES))
