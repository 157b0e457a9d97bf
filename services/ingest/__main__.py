"""Run the ingest server alone: `python -m services.ingest`."""

from __future__ import annotations

import sys

from libs.common.migrate_at_start import upgrade_when_there
from libs.common.server import Mounted, run
from libs.common.settings import CommonSettings
from services.access import RULES
from services.ingest.mount import mount
from services.ingest.settings import IngestSettings


async def _mount() -> tuple[str, Mounted]:
    settings, common = IngestSettings(), CommonSettings.from_environment().of("ingest")
    await upgrade_when_there(common.database, "ingest")
    return settings.listen, await mount(settings, common)


if __name__ == "__main__":
    sys.exit(run("ingest", _mount, RULES))
