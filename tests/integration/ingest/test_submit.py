"""SubmitGallery on a real server and database (domain.md 3.1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import grpc
import pytest
from frontrow.client import sign
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2
from frontrow.task.v1 import task_service_pb2
from sqlalchemy import select, text

from libs.common.client import error_info
from libs.common.db import Database
from libs.common.lane import Connection
from services.ingest import repository_submit, submit_desk
from services.ingest.models import jobs, nonces, outbox
from services.ingest.repository_submit import FirstJob
from services.ingest.servicer import SUBMIT_METHOD
from services.ingest.signature import Credentials, expected_signature
from tests.integration.ingest.conftest import Ingest, gallery
from tests.integration.ingest.submissions import count, refusal, submission


def signed_with(
    ingest: Ingest, nonce: str, request: ingest_service_pb2.SubmitGalleryRequest, *, now: float
) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a nonce of one's choice."""
    unsigned = Credentials(ingest.key_id, str(int(now)), nonce, "")
    signature = expected_signature(ingest.secret, SUBMIT_METHOD, unsigned, request.SerializeToString())
    return (
        ("x-frontrow-key-id", ingest.key_id),
        ("x-frontrow-timestamp", unsigned.timestamp),
        ("x-frontrow-nonce", nonce),
        ("x-frontrow-signature", signature),
    )


async def test_nonce_job_and_the_order_for_its_task_come_together(ingest: Ingest, database: Database) -> None:
    answer = await ingest.call(submission())
    assert answer.accepted
    async with database.begin() as session:
        job = (await session.execute(select(jobs).where(jobs.c.id == UUID(answer.job_id)))).one()
        subject = f"ingest_job:{answer.job_id}"
        order = (await session.execute(select(outbox).where(outbox.c.subject == subject))).one()
    request = task_service_pb2.CreateTaskRequest.FromString(order.body)
    assert (request.task_id, request.type, request.max_attempts) == (str(job.task_id), "ingest", 3)
    assert request.payload["job_id"] == answer.job_id
    assert await count(database, nonces, ingest.spider_id) == 1
    found = (await ingest.stub.GetIngestJob(ingest_service_pb2.GetIngestJobRequest(job_id=answer.job_id))).job
    assert found.status == ingest_job_pb2.INGEST_JOB_STATUS_PENDING
    assert [i.result for i in found.images] == [ingest_job_pb2.IMAGE_RESULT_PENDING]
    assert found.title == "Gucci — Look 一"


async def test_a_transaction_that_fails_after_the_nonce_leaves_no_nonce_and_the_spider_gets_in_once(
    ingest: Ingest, database: Database
) -> None:
    async with database.begin() as session:
        await session.execute(
            text("ALTER TABLE ingest.outbox ADD CONSTRAINT broken CHECK (id < 0) NOT VALID")
        )
    request = submission(request_id="crash")
    signed = sign(request.SerializeToString(), key_id=ingest.key_id, secret=ingest.secret)
    try:
        code, _, _ = await refusal(ingest.call(request, signed))
        assert code == grpc.StatusCode.INTERNAL
    finally:
        async with database.begin() as session:
            await session.execute(text("ALTER TABLE ingest.outbox DROP CONSTRAINT broken"))
    assert await count(database, nonces, ingest.spider_id) == 0
    assert await count(database, jobs, ingest.spider_id) == 0
    assert (await ingest.call(request, signed)).accepted
    assert not (await ingest.call(request)).accepted
    assert await count(database, jobs, ingest.spider_id) == 1


async def test_a_replayed_nonce_is_refused_whatever_it_carries(ingest: Ingest) -> None:
    first, other = submission(url="https://v.example/a"), submission(url="https://v.example/b")
    signed = sign(first.SerializeToString(), key_id=ingest.key_id, secret=ingest.secret)
    await ingest.call(first, signed)
    assert await refusal(ingest.call(first, signed)) == (grpc.StatusCode.ALREADY_EXISTS, "NONCE_REPLAYED", {})
    resigned = sign(other.SerializeToString(), key_id=ingest.key_id, secret=ingest.secret)
    same_nonce = tuple((k, dict(signed)[k]) if k == "x-frontrow-nonce" else (k, v) for k, v in resigned)
    assert (await refusal(ingest.call(other, same_nonce)))[1] == "BAD_SIGNATURE"


async def test_one_nonce_sent_by_twenty_calls_at_once_makes_one_job(
    ingest: Ingest, database: Database
) -> None:
    request = submission()
    signed = sign(request.SerializeToString(), key_id=ingest.key_id, secret=ingest.secret)
    answers = await asyncio.gather(*(ingest.call(request, signed) for _ in range(20)), return_exceptions=True)
    assert sum(not isinstance(a, BaseException) for a in answers) == 1
    assert await count(database, jobs, ingest.spider_id) == 1


@pytest.mark.parametrize("off", [-299, 299])
async def test_a_clock_five_minutes_off_is_taken(ingest: Ingest, off: int) -> None:
    assert (await ingest.call(submission(), now=time.time() + off)).accepted


@pytest.mark.parametrize("off", [-302, 302])
async def test_a_clock_further_off_is_refused_with_the_servers_time(ingest: Ingest, off: int) -> None:
    code, reason, metadata = await refusal(ingest.call(submission(), now=time.time() + off))
    assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "CLOCK_SKEW")
    assert abs(int(metadata["server_time"]) - time.time()) < 5


async def test_key_then_signature_then_window_then_nonce_then_request_id_are_checked(ingest: Ingest) -> None:
    request = submission(request_id="order")
    raw, late = request.SerializeToString(), time.time() + 4000
    first = sign(raw, key_id=ingest.key_id, secret=ingest.secret)
    await ingest.call(request, first)
    wrong_key = sign(raw, key_id="fk_none", secret="wrong", now=late)
    assert (await refusal(ingest.call(request, wrong_key)))[:2] == (
        grpc.StatusCode.UNAUTHENTICATED,
        "UNKNOWN_KEY",
    )
    wrong_secret = sign(raw, key_id=ingest.key_id, secret="wrong", now=late)
    assert (await refusal(ingest.call(request, wrong_secret)))[1] == "BAD_SIGNATURE"
    too_late = signed_with(ingest, dict(first)["x-frontrow-nonce"], request, now=late)
    assert (await refusal(ingest.call(request, too_late)))[1] == "CLOCK_SKEW"
    assert (await refusal(ingest.call(request, first)))[1] == "NONCE_REPLAYED"  # its request id is known, too
    other = submission(request_id="order", url="https://v.example/other")
    signed = sign(other.SerializeToString(), key_id=ingest.key_id, secret=ingest.secret)
    code, reason, _ = await refusal(ingest.call(other, signed))
    assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    assert (await refusal(ingest.call(other, signed)))[1] == "NONCE_REPLAYED"  # told of its id, it was used
    assert not (await ingest.call(request)).accepted


async def test_a_known_request_id_answers_the_first_job(ingest: Ingest, database: Database) -> None:
    first = await ingest.call(submission(request_id="once"))
    again = await asyncio.gather(*(ingest.call(submission(request_id="once")) for _ in range(10)))
    assert {(a.job_id, a.accepted) for a in again} == {(first.job_id, False)}
    assert await count(database, jobs, ingest.spider_id) == 1


async def test_a_known_request_id_whose_first_job_is_purged_meanwhile_gets_in_at_the_next_try(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ingest.call(submission(request_id="gone"))

    async def after_a_purge(
        connection: Connection, asked: Sequence[tuple[UUID, str]]
    ) -> list[FirstJob | None]:
        await connection.execute("DELETE FROM ingest.jobs WHERE id = $1", UUID(first.job_id))
        return await repository_submit.first_jobs(connection, asked)

    monkeypatch.setattr(submit_desk, "first_jobs", after_a_purge)
    code, reason, _ = await refusal(ingest.call(submission(request_id="gone")))
    assert (code, reason) == (grpc.StatusCode.ABORTED, "FIRST_JOB_GONE")
    async with ingest.client() as client:
        again = await client.submit(gallery(), request_id="gone")
    assert again.accepted
    assert again.job_id != first.job_id


async def test_two_spiders_may_use_the_same_request_id_and_nonce(ingest: Ingest) -> None:
    request = submission(request_id="shared")
    for name in ("shared one", "shared two"):
        await ingest.make_spider(name)
        signed = signed_with(ingest, "shared-nonce-0123456789", request, now=time.time())
        assert (await ingest.call(request, signed)).accepted


async def test_the_raw_bytes_are_signed_and_unknown_fields_with_them(ingest: Ingest) -> None:
    request = submission()
    # a field of a newer client: it must not break the signature, and changing it must
    newer = request.SerializeToString() + b"\xfa\x07\x03new"
    method = "/frontrow.ingest.v1.IngestService/SubmitGallery"
    call = ingest.channel.unary_unary(
        method, response_deserializer=ingest_service_pb2.SubmitGalleryResponse.FromString
    )
    signed = sign(newer, key_id=ingest.key_id, secret=ingest.secret)
    assert (await refusal(call(newer[:-1] + b"W", metadata=signed)))[1] == "BAD_SIGNATURE"
    assert (await call(newer, metadata=signed)).accepted


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda g: g.ClearField("images"), "gallery.images"),
        (lambda g: g.images.extend([g.images[0]] * 500), "gallery.images"),
        (lambda g: g.images.add(url="https://a/" + "x" * 8192), "gallery.images[1].url"),
        (lambda g: g.images.add(url="data:image/png;base64,AA"), "gallery.images[1].url"),
        (lambda g: g.MergeFrom(gallery_pb2.Gallery(title="nul\x00")), "gallery.title"),
        (lambda g: g.MergeFrom(gallery_pb2.Gallery(title="t" * 513)), "gallery.title"),
        (lambda g: g.MergeFrom(gallery_pb2.Gallery(source="s" * 33)), "gallery.source"),
        (lambda g: g.ClearField("kind"), "gallery.kind"),
        (lambda g: g.MergeFrom(gallery_pb2.Gallery(month=13)), "gallery.month"),
        (lambda g: g.MergeFrom(gallery_pb2.Gallery(year=26)), "gallery.year"),
    ],
)
async def test_a_field_at_fault_is_named(ingest: Ingest, change: object, field: str) -> None:
    request = submission()
    change(request.gallery)  # type: ignore[operator]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ingest.call(request)
    found = error_info(caught.value)
    assert found.code == grpc.StatusCode.INVALID_ARGUMENT
    assert found.violations[0].field == field


async def test_a_lone_surrogate_in_the_title_is_refused_by_field(ingest: Ingest) -> None:
    raw = submission(title="TITLE").SerializeToString().replace(b"TITLE", b"\xed\xa0\x80ab")
    call = ingest.channel.unary_unary("/frontrow.ingest.v1.IngestService/SubmitGallery")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(raw, metadata=sign(raw, key_id=ingest.key_id, secret=ingest.secret))
    found = error_info(caught.value)
    assert found.code == grpc.StatusCode.INVALID_ARGUMENT
    assert [v.field for v in found.violations] == ["gallery.title"]


async def test_the_largest_gallery_gets_in(ingest: Ingest) -> None:
    big = gallery(*(f"https://a/{i}/".ljust(2048, "x") for i in range(500)))
    for image in big.images:
        image.caption = "字" * 1000
    answer = await ingest.call(ingest_service_pb2.SubmitGalleryRequest(gallery=big))
    assert answer.accepted


async def test_an_old_spiders_message_gets_in_unchanged(ingest: Ingest) -> None:
    old = gallery_pb2.Gallery(kind=gallery_pb2.GALLERY_KIND_STREET_SNAP, title="t", city="Copenhagen")
    old.images.add(url="https://a/1.jpg")
    assert (await ingest.call(ingest_service_pb2.SubmitGalleryRequest(gallery=old))).accepted


async def test_only_nonces_that_no_window_lets_in_any_more_are_purged(
    ingest: Ingest, database: Database
) -> None:
    now = datetime.now(UTC)
    ages = {"gone-0123456789abc": 361, "kept-0123456789abc": 355, "ahead-0123456789ab": -299}
    async with database.begin() as session:
        for nonce, age in ages.items():
            signed_at = now - timedelta(seconds=age)
            values = {"spider_id": UUID(ingest.spider_id), "nonce": nonce, "signed_at": signed_at}
            await session.execute(nonces.insert().values(**values))
        await repository_submit.purge_nonces(session, 360)
        query = select(nonces.c.nonce).where(nonces.c.spider_id == UUID(ingest.spider_id))
        left = set((await session.execute(query)).scalars())
    assert left == {"kept-0123456789abc", "ahead-0123456789ab"}
