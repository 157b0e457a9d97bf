"""Serve the review context alone: `python -m services.review`."""

import sys

from libs.common.migrate_at_start import upgrade_when_there
from libs.common.server import Mounted, run
from libs.common.settings import CommonSettings
from services.access import RULES
from services.review.mount import mount
from services.review.settings import ReviewSettings


async def _mount() -> tuple[str, Mounted]:
    settings, common = ReviewSettings(), CommonSettings.from_environment().of("review")
    await upgrade_when_there(common.database, "review")
    return settings.listen, await mount(settings, common)


if __name__ == "__main__":
    sys.exit(run("review", _mount, RULES))
