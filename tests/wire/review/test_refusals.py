"""What a client gets when review refuses: code, reason, metadata, fields."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from frontrow.review.v1 import catalog_service_pb2, draft_pb2, media_pb2
from frontrow.review.v1 import draft_service_pb2 as pb
from frontrow.review.v1 import intake_service_pb2 as intake

from libs.common.client import error_info
from services.review.states import Action, MediaState, Status
from tests.integration.review.gallery import RUNWAY, STREET, Gallery, item_of, unique


async def refusal(call: Any) -> grpc.aio.AioRpcError:
    """Return the error that a call ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value


def runway_request(**fields: Any) -> intake.CreateRunwayDraftRequest:
    """Return a request that is right but for the given fields."""
    usual = {
        "job_id": unique("job"),
        "title": "t",
        "runway": intake.RunwayTexts(brand="Chanel", season_code="FW26"),
        "images": [intake.IntakeImage(media_key="media/00/x.jpg")],
    }
    return intake.CreateRunwayDraftRequest(**{**usual, **fields})


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"images": []}, "images"),
        ({"images": [intake.IntakeImage(media_key="k")] * 501}, "images"),
        ({"title": "t" * 513}, "title"),
        ({"title": "nul \0"}, "title"),
        ({"source": "s" * 33}, "source"),
        ({"source_url": "u" * 513}, "source_url"),
        ({"source_url": "nul \0"}, "source_url"),
        ({"job_id": ""}, "job_id"),
        ({"runway": intake.RunwayTexts(brand="b" * 129)}, "runway.brand"),
        ({"images": [intake.IntakeImage(media_key="k", caption="c" * 1001)]}, "images[0].caption"),
        ({"images": [intake.IntakeImage(media_key="k", original_url="ü" * 1025)]}, "images[0].original_url"),
    ],
)
async def test_a_bad_draft_is_refused_by_its_field(gallery: Gallery, fields: Any, at_fault: str) -> None:
    error = await refusal(gallery.intake.CreateRunwayDraft(runway_request(**fields)))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert at_fault in {violation.field for violation in error_info(error).violations}


async def test_bytes_that_are_no_text_are_an_invalid_argument(gallery: Gallery) -> None:
    raw = runway_request(title="MARK").SerializeToString().replace(b"MARK", b"\xed\xa0\x80!")
    call: Any = gallery.channel.unary_unary("/frontrow.review.v1.IntakeService/CreateRunwayDraft")
    error = await refusal(call(raw))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in error_info(error).violations] == ["title"]


@pytest.mark.parametrize(
    "change",
    [
        {"key": "../etc/passwd"},
        {"key": ""},
        {"sha256": "ABC"},
        {"size_bytes": 0},
        {"size_bytes": 1 << 31},
        {"content_type": "text/html"},
        {"width": 0},
        {"height": 70000},
    ],
)
async def test_a_bad_announcement_is_refused_by_its_field(gallery: Gallery, change: dict[str, Any]) -> None:
    item = item_of(b"wire")
    for name, value in change.items():
        setattr(item, name, value)
    request = intake.ReserveMediaRequest(job_id="j", items=[item])
    error = await refusal(gallery.intake.ReserveMedia(request))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error_info(error).violations[0].field == f"items[0].{next(iter(change))}"


async def test_an_announcement_names_each_key_once(gallery: Gallery) -> None:
    request = intake.ReserveMediaRequest(job_id="j", items=[item_of(b"twice"), item_of(b"twice")])
    error = await refusal(gallery.intake.ReserveMedia(request))
    assert (error.code(), error_info(error).violations[0].field) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "items",
    )


async def test_years_and_months_out_of_range_are_refused(gallery: Gallery) -> None:
    for year, month in ((1899, 1), (2201, 1), (2026, 13)):
        texts = intake.StreetSnapTexts(city="Paris", year=year, month=month)
        request = intake.FindOfficialRequest(job_id="j", street_snap=texts)
        error = await refusal(gallery.intake.FindOfficial(request))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("service", "method", "request_", "reason"),
    [
        ("drafts", "GetDraft", pb.GetDraftRequest(kind=STREET, draft_id="999999"), "DRAFT_NOT_FOUND"),
        ("drafts", "DeleteDraft", pb.DeleteDraftRequest(kind=RUNWAY, draft_id="999999"), "DRAFT_NOT_FOUND"),
        (
            "catalog",
            "GetRunway",
            catalog_service_pb2.GetRunwayRequest(runway_id="999999"),
            "RUNWAY_NOT_FOUND",
        ),
        (
            "catalog",
            "GetStreetSnap",
            catalog_service_pb2.GetStreetSnapRequest(street_snap_id="999999"),
            "STREET_SNAP_NOT_FOUND",
        ),
    ],
)
async def test_an_unknown_id_is_not_found(
    gallery: Gallery, service: str, method: str, request_: Any, reason: str
) -> None:
    error = await refusal(getattr(getattr(gallery, service), method)(request_))
    assert (error.code(), error_info(error).reason) == (grpc.StatusCode.NOT_FOUND, reason)
    assert "999999" in (error.details() or "")


async def test_changes_need_a_kind_an_id_and_where_nothing_may_be_lost_an_etag(gallery: Gallery) -> None:
    wrong = (
        gallery.drafts.GetDraft(pb.GetDraftRequest(draft_id="1")),
        gallery.drafts.GetDraft(pb.GetDraftRequest(kind=STREET, draft_id="1; DROP TABLE")),
        gallery.drafts.GetDraft(pb.GetDraftRequest(kind=STREET, draft_id="9" * 40)),
        gallery.drafts.ApproveDraft(pb.ApproveDraftRequest(kind=STREET, draft_id="1")),
        gallery.drafts.UpdateDraft(pb.UpdateDraftRequest(kind=STREET, draft_id="1", etag="x")),
        gallery.drafts.PurgeDraft(pb.PurgeDraftRequest(kind=STREET, draft_id="1", reason="r")),
        gallery.drafts.PurgeDraft(pb.PurgeDraftRequest(kind=STREET, draft_id="1", etag="x")),
    )
    for call in wrong:
        assert (await refusal(call)).code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_every_enum_of_the_wire_has_its_word_in_the_rules() -> None:
    assert {s.name for s in Status} == _words(draft_pb2.DraftStatus, "DRAFT_STATUS_")
    assert {a.name for a in Action} == _words(draft_pb2.DraftAction, "DRAFT_ACTION_")
    assert _words(media_pb2.MediaState, "MEDIA_STATE_") <= {s.name for s in MediaState}


def _words(enum: Any, prefix: str) -> set[str]:
    return {name.removeprefix(prefix) for name, _ in enum.items()} - {"UNSPECIFIED"}
