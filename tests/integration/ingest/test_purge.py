"""`frontrow purge`: test data goes in the right order, and nothing else does."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pytest
from click.testing import CliRunner, Result
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2
from frontrow.review.v1 import catalog_service_pb2, catalog_service_pb2_grpc, draft_service_pb2
from frontrow.review.v1.draft_pb2 import GALLERY_KIND_RUNWAY
from sqlalchemy import func, select

from cli.main import main
from libs.common.client import connect
from libs.common.db import Database
from services.ingest.models import audit_log, jobs
from tests.integration.ingest.chain import Chain


@pytest.fixture
async def by_hand(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """Let the command line find the chain's servers."""
    for context in ("task", "review", "ingest"):
        address = getattr(chain.common.peers, f"{context}_address")
        monkeypatch.setenv(f"FRONTROW_{context.upper()}_ADDRESS", address)
    monkeypatch.setenv("FRONTROW_ACTOR", "mia")
    return chain


async def frontrow(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, list(arguments), catch_exceptions=False)


async def submit(chain: Chain, source: str, number: int) -> str:
    picture = chain.site.picture(f"{source}/{number}.jpg", seed=number)
    url = f"https://{source}.example/{number}"
    return await chain.submit(picture, url=url, source=source, season_code=f"FW{number:02d}")


async def jobs_in(database: Database, source: str) -> int:
    async with database.begin() as session:
        query = select(func.count()).where(jobs.c.source == source)
        return (await session.execute(query)).scalar_one()


def told(result: Result) -> dict[str, object]:
    """Return the JSON that a command printed, after what this process logged meanwhile."""
    found: dict[str, object] = json.loads(result.output[result.output.index("{\n") :])
    return found


@dataclass(frozen=True)
class Source:
    """Of the source that goes one article public, one deleted, one waiting; and one of another that stays."""

    official_id: str
    kept: ingest_job_pb2.IngestJob


@pytest.fixture
async def filled(by_hand: Chain) -> Source:
    """Bring the articles in."""
    chain = by_hand
    worker = await chain.work()
    shown, dropped, kept = [
        await chain.ended(await submit(chain, source, number))
        for source, number in (("purged", 21), ("purged", 22), ("kept", 23))
    ]
    official_id = await chain.approve(shown.draft_id)
    delete = draft_service_pb2.DeleteDraftRequest(
        kind=GALLERY_KIND_RUNWAY, draft_id=dropped.draft_id, etag=(await chain.draft(dropped.draft_id)).etag
    )
    await chain.drafts.DeleteDraft(delete)
    await worker.stop()
    await submit(chain, "purged", 24)  # waits: nobody works
    return Source(official_id, kept)


async def test_the_data_of_one_source_goes_with_everything_under_way_and_may_come_in_again(
    by_hand: Chain, filled: Source, database: Database
) -> None:
    chain = by_hand
    report = await frontrow("purge", "--source", "Purged", "--json")
    expected = {"source": "Purged", "applied": False, "open_jobs": 1, "jobs": 2}
    assert told(report) == expected | {"drafts": {"approved": 1, "deleted": 1}}
    assert await jobs_in(database, "purged") == 3  # a report writes nothing

    report = await frontrow("purge", "--source", "Purged", "--apply")
    assert "Gone: 1 job under way, 2 drafts (1 approved, 1 deleted), 3 ended jobs of Purged." in report.output
    assert (await jobs_in(database, "purged"), await jobs_in(database, "kept")) == (0, 1)
    assert await chain.drafts_of("https://purged.example/21") == []
    kept = await chain.drafts_of(filled.kept.source_url)
    assert [draft.draft_id for draft in kept] == [filled.kept.draft_id]
    async with connect(chain.common.peers.review_address) as channel:
        catalog = catalog_service_pb2_grpc.CatalogServiceStub(channel)
        runways = (await catalog.ListRunways(catalog_service_pb2.ListRunwaysRequest())).runways
    assert filled.official_id not in {runway.runway_id for runway in runways}  # hidden: no draft feeds it
    assert chain.store.calls["delete"] == 0  # objects are the clean-up's
    async with database.begin() as session:
        rows = (await session.execute(select(audit_log))).all()
    assert [(row.action, row.actor, row.details["source"], row.details["jobs"]) for row in rows] == [
        ("jobs.purged", "mia", "purged", 3)
    ]
    assert told(await frontrow("purge", "--source", "Purged", "--apply", "--json"))["jobs"] == 0
    await chain.work()
    came_in = await chain.ended(await submit(chain, "purged", 21))
    assert came_in.done_reason == ingest_job_pb2.DONE_REASON_CREATED


async def test_jobs_are_purged_by_somebody_or_not_at_all(chain: Chain) -> None:
    request = ingest_service_pb2.PurgeIngestJobsRequest(source="nobody", apply=True)
    async with connect(chain.common.peers.ingest_address) as channel:
        call = channel.unary_unary(
            "/frontrow.ingest.v1.IngestService/PurgeIngestJobs",
            request_serializer=ingest_service_pb2.PurgeIngestJobsRequest.SerializeToString,
        )
        with pytest.raises(Exception, match="say who you are"):
            await call(request)
        with pytest.raises(Exception, match="source"):
            await call(ingest_service_pb2.PurgeIngestJobsRequest())
