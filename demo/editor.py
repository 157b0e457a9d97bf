"""The editor's part: approve the drafts, then look at the public pages."""

import hashlib
from collections.abc import Sequence

from frontrow.review.v1 import (
    catalog_pb2,
    catalog_service_pb2,
    catalog_service_pb2_grpc,
    draft_pb2,
    draft_service_pb2,
    draft_service_pb2_grpc,
    media_pb2,
)

from demo import galleries
from demo.galleries import Jobs
from demo.instance import Instance
from demo.report import Report
from demo.site import PHOTOS
from libs.common.client import reading

_SECONDS = 10.0
_RUNWAY, _STREET = draft_pb2.GALLERY_KIND_RUNWAY, draft_pb2.GALLERY_KIND_STREET_SNAP


async def approve_all(instance: Instance, jobs: Jobs, report: Report) -> dict[str, str]:
    """Approve every draft that the jobs made; return the official page of each, by the article's name."""
    stub = draft_service_pb2_grpc.DraftServiceStub(instance.channel("review"))
    pages: dict[str, str] = {}
    with report.timed("review: drafts approved"):
        for name, job in jobs.items():
            if not job.draft_id or name == "re-crawl":
                continue
            kind = _STREET if "street" in name else _RUNWAY
            asked = draft_service_pb2.GetDraftRequest(kind=kind, draft_id=job.draft_id)
            draft = (await stub.GetDraft(asked, timeout=_SECONDS)).draft
            request = draft_service_pb2.ApproveDraftRequest(kind=kind, draft_id=job.draft_id, etag=draft.etag)
            answer = await stub.ApproveDraft(request, timeout=_SECONDS)
            pages[name] = answer.official_id
    return pages


async def check_catalogue(instance: Instance, jobs: Jobs, pages: dict[str, str], report: Report) -> None:
    """Read the public catalogue and check that it holds exactly what it should."""
    catalogue = catalog_service_pb2_grpc.CatalogServiceStub(instance.channel("review"))
    runways = (
        await catalogue.ListRunways(catalog_service_pb2.ListRunwaysRequest(), timeout=_SECONDS)
    ).runways
    streets = (
        await catalogue.ListStreetSnaps(catalog_service_pb2.ListStreetSnapsRequest(), timeout=_SECONDS)
    ).street_snaps
    report.check("there is exactly one official runway", 1, len(runways))
    report.check("there are exactly two street albums", 2, len(streets))
    report.check(
        "both sources' drafts are in the same runway", pages["vogue show"], pages["theImpression show"]
    )
    report.check(
        "both February articles are in the same album", pages["February street 1"], pages["February street 2"]
    )
    await _check_runway(instance, pages["vogue show"], _in_order(jobs, galleries.RUNWAY_PHOTOS), report)
    months = {month: _in_order(jobs, photos) for month, photos in galleries.ALBUM_PHOTOS.items()}
    await _check_albums(instance, pages, months, report)


async def _check_runway(instance: Instance, runway_id: str, photos: Sequence[str], report: Report) -> None:
    catalogue = catalog_service_pb2_grpc.CatalogServiceStub(instance.channel("review"))
    asked = catalog_service_pb2.GetRunwayRequest(runway_id=runway_id)
    runway = (await catalogue.GetRunway(asked, timeout=_SECONDS)).runway
    report.check(
        "the runway has the union of both sources' images, in order, byte for byte",
        _hashes(photos),
        await _originals(instance, runway.images),
    )
    await _check_public_picture(instance, runway.images[0], report)
    report.note(
        "official runway",
        f"{runway.brand}, {runway.season}: {len(runway.images)} images of two sources, “{runway.title}”",
        runway_id=runway.runway_id,
    )


async def _check_albums(
    instance: Instance, pages: dict[str, str], months: dict[str, Sequence[str]], report: Report
) -> None:
    catalogue = catalog_service_pb2_grpc.CatalogServiceStub(instance.channel("review"))
    albums = {}
    for month, photos in months.items():
        article = next(iter(galleries.ALBUM_PHOTOS[month]))
        asked = catalog_service_pb2.GetStreetSnapRequest(street_snap_id=pages[article])
        album = (await catalogue.GetStreetSnap(asked, timeout=_SECONDS)).street_snap
        albums[month] = {image.media_key for image in album.images}
        report.check(
            f"{month}'s album has that month's images, byte for byte",
            _hashes(photos),
            await _originals(instance, album.images),
        )
        report.note(
            f"street album, {month}",
            f"{len(album.images)} images, “{album.title}”",
            street_snap_id=album.street_snap_id,
        )
    report.check("the two albums share no image", set(), albums["February"] & albums["August"])


def _in_order(jobs: Jobs, articles: galleries.Photos) -> Sequence[str]:
    """Return the photographs of several articles as an official page shows them: by draft, then position."""
    by_draft = sorted(articles, key=lambda name: int(jobs[name].draft_id))
    return [photo for name in by_draft for photo in articles[name]]


def _hashes(names: Sequence[str]) -> list[str]:
    """Return the photographs' hashes in order, each once."""
    return list(dict.fromkeys(hashlib.sha256((PHOTOS / name).read_bytes()).hexdigest() for name in names))


async def _originals(instance: Instance, images: Sequence[catalog_pb2.OfficialImage]) -> list[str]:
    """Download the originals as an editor and return their hashes (public copies are freed of EXIF)."""
    stub = draft_service_pb2_grpc.DraftServiceStub(instance.channel("review"))
    hashes = []
    for image in images:
        request = draft_service_pb2.GetDraftMediaRequest(
            media_key=image.media_key, size=media_pb2.MEDIA_SIZE_ORIGINAL
        )
        digest = hashlib.sha256()
        async with reading(stub.GetDraftMedia(request, timeout=_SECONDS)) as answers:
            async for answer in answers:
                digest.update(answer.chunk)
        hashes.append(digest.hexdigest())
    return hashes


async def _check_public_picture(instance: Instance, image: catalog_pb2.OfficialImage, report: Report) -> None:
    """Check that a reader gets a thumbnail of a published picture."""
    stub = catalog_service_pb2_grpc.CatalogServiceStub(instance.channel("review"))
    request = catalog_service_pb2.GetMediaRequest(
        media_key=image.media_key, size=media_pb2.MEDIA_SIZE_THUMBNAIL
    )
    size = 0
    async with reading(stub.GetMedia(request, timeout=_SECONDS)) as answers:
        async for answer in answers:
            size += len(answer.chunk)
    report.check_that("a reader gets a thumbnail of a published picture", size > 0, size)
