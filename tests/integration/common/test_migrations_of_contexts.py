"""Every context's own migrations: they run on nothing, and give what the models say."""

import pytest

from libs.common import migrate
from libs.common.testing import contexts


@pytest.mark.parametrize("ctx", contexts())
async def test_the_migrations_of_each_context_run_on_nothing_and_match_its_models(
    empty_database_url: str, ctx: str
) -> None:
    await migrate.upgrade(empty_database_url, ctx)
    await migrate.check(empty_database_url, ctx)
