"""Part one: galleries of two sources become one official show and two street albums."""

import asyncio
from collections.abc import Sequence

from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2, ingest_service_pb2_grpc

from demo.instance import Instance
from demo.report import Deviation, Report
from demo.site import BROKEN, ImageSite

_JOB_SECONDS = 60.0
_POLL_SECONDS = 0.15
_RUNNING = {ingest_job_pb2.INGEST_JOB_STATUS_PENDING, ingest_job_pb2.INGEST_JOB_STATUS_PROCESSING}

VOGUE = ("astronaut.jpg", "astronaut_detail.jpg", "rocket.jpg")
IMPRESSION = ("rocket.jpg", "rocket_detail.jpg", "astronaut.webp")  # one photograph is in both
FEBRUARY_ONE = ("coffee.jpg", "coffee_detail.jpg")
FEBRUARY_TWO = ("coffee.avif",)
AUGUST = ("chelsea.jpg", "chelsea_detail.jpg")
Photos = dict[str, tuple[str, ...]]
# What the official pages must show: photographs by article.
RUNWAY_PHOTOS: Photos = {"vogue show": VOGUE, "theImpression show": IMPRESSION}
ALBUM_PHOTOS: dict[str, Photos] = {
    "February": {"February street 1": FEBRUARY_ONE, "February street 2": FEBRUARY_TWO},
    "August": {"August street": AUGUST},
}

Jobs = dict[str, ingest_job_pb2.IngestJob]


def articles(site: ImageSite) -> dict[str, gallery_pb2.Gallery]:
    """Return the galleries a spider found, by a name of ours."""
    return {**_shows(site), **_street_articles(site)}


def _shows(site: ImageSite) -> dict[str, gallery_pb2.Gallery]:
    """Return one show as two sources tell it, and one with a picture that is none."""
    runway = gallery_pb2.GALLERY_KIND_RUNWAY
    return {
        "vogue show": gallery_pb2.Gallery(
            kind=runway,
            brand="Acne Studios",
            title="Acne Studios Fall 2026 Ready-to-Wear",
            source="vogue",
            source_url="https://www.vogue.com/fashion-shows/fall-2026-ready-to-wear/acne-studios",
            season_code="Fall 2026 Ready-to-Wear",
            images=_images(site, VOGUE),
        ),
        "theImpression show": gallery_pb2.Gallery(
            kind=runway,
            brand="Acne Studios",
            title="Acne Studios Fall 2026 Fashion Show",
            source="theimpression",
            source_url="https://theimpression.com/acne-studios-fall-2026/",
            season_code="FW26",
            images=_images(site, IMPRESSION),
        ),
        "broken gallery": gallery_pb2.Gallery(
            kind=runway,
            title="A show with a broken picture",
            source="vogue",
            source_url="https://www.vogue.com/fashion-shows/spring-2026-ready-to-wear/broken",
            brand="Acne Studios",
            season_code="Spring 2026 Ready-to-Wear",
            images=[
                gallery_pb2.GalleryImage(url=f"{site.origin}/photos/hubble_deep_field.jpg", position=1),
                gallery_pb2.GalleryImage(url=f"{site.origin}/broken/{BROKEN}", position=2),
            ],
        ),
    }


def _street_articles(site: ImageSite) -> dict[str, gallery_pb2.Gallery]:
    """Return two articles about February in one city, under two of its names, and one about August."""
    street = gallery_pb2.GALLERY_KIND_STREET_SNAP
    return {
        "February street 1": gallery_pb2.Gallery(
            kind=street,
            title="The best street style at Copenhagen Fashion Week",
            source="vogue",
            source_url="https://www.vogue.com/slideshow/copenhagen-street-style-day-1",
            city="Copenhagen Fashion Week",
            year=2026,
            month=2,
            images=_images(site, FEBRUARY_ONE),
        ),
        "February street 2": gallery_pb2.Gallery(
            kind=street,
            title="Streetstyle i København",
            source="theimpression",
            source_url="https://theimpression.com/copenhagen-street-style-fall-2026/",
            city="KØBENHAVN",
            year=2026,
            month=2,
            images=_images(site, FEBRUARY_TWO),
        ),
        "August street": gallery_pb2.Gallery(
            kind=street,
            title="Copenhagen in August",
            source="vogue",
            source_url="https://www.vogue.com/slideshow/copenhagen-street-style-august",
            city="哥本哈根",
            year=2026,
            month=8,
            images=_images(site, AUGUST),
        ),
    }


def _images(site: ImageSite, names: Sequence[str]) -> list[gallery_pb2.GalleryImage]:
    return [
        gallery_pb2.GalleryImage(url=f"{site.origin}/photos/{name}", caption=f"Look {index}", position=index)
        for index, name in enumerate(names, start=1)
    ]


async def submit_and_wait(instance: Instance, site: ImageSite, report: Report) -> Jobs:
    """Register a spider, submit everything signed, crawl one article again; return the finished jobs."""
    admin = ingest_service_pb2_grpc.IngestServiceStub(instance.channel("ingest"))
    key = await admin.CreateSpider(ingest_service_pb2.CreateSpiderRequest(name="demo-spider"), timeout=10)
    address = instance.connection.address("ingest")
    found = articles(site)
    jobs: Jobs = {}
    async with AsyncSpiderClient(address, key_id=key.key_id, secret=key.secret) as spider:
        with report.timed("galleries: submitted, downloaded, checked, stored, drafted"):
            submitted = {name: (await spider.submit(gallery)).job_id for name, gallery in found.items()}
            for name, job_id in submitted.items():
                jobs[name] = await finished(spider, job_id, name)
        downloads = len(site.requests)
        with report.timed("galleries: an article crawled again"):
            again = await spider.submit(found["vogue show"])
            jobs["re-crawl"] = await finished(spider, again.job_id, "re-crawl")
        report.check("the re-crawl downloaded nothing", downloads, len(site.requests))
    return jobs


async def finished(spider: AsyncSpiderClient, job_id: str, name: str) -> ingest_job_pb2.IngestJob:
    """Read a job until it has ended. Raises Deviation when that takes too long."""
    for _ in range(int(_JOB_SECONDS / _POLL_SECONDS)):
        job = await spider.get_job(job_id)
        if job.status not in _RUNNING:
            return job
        await asyncio.sleep(_POLL_SECONDS)
    raise Deviation(f"the job of {name} ({job_id}) was not done within {_JOB_SECONDS:g} s")


def check_jobs(jobs: Jobs, site: ImageSite, report: Report) -> None:
    """Check what became of each submission."""
    for name, job in jobs.items():
        if name in ("re-crawl", "broken gallery"):
            continue
        report.check(
            f"{name}: a draft was created",
            (ingest_job_pb2.INGEST_JOB_STATUS_DONE, ingest_job_pb2.DONE_REASON_CREATED, ""),
            (job.status, job.done_reason, job.error_message),
        )
        report.note(f"gallery: {name}", f"draft {job.draft_id}, {job.image_count} images", job_id=job.job_id)
    _check_recrawl(jobs, report)
    _check_broken(jobs["broken gallery"], site, report)


def _check_recrawl(jobs: Jobs, report: Report) -> None:
    job, first = jobs["re-crawl"], jobs["vogue show"]
    report.check(
        "the re-crawl is done as a duplicate of its source",
        (ingest_job_pb2.INGEST_JOB_STATUS_DONE, ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE),
        (job.status, job.done_reason),
    )
    report.check(
        "the re-crawl names the draft it met",
        (ingest_job_pb2.BLOCKER_KIND_DRAFT, first.draft_id),
        (job.blocker.kind, job.blocker.id),
    )
    report.note(
        "gallery: the same article again",
        f"skipped: met draft {job.blocker.id} ({job.blocker.status})",
        job_id=job.job_id,
    )


def _check_broken(job: ingest_job_pb2.IngestJob, site: ImageSite, report: Report) -> None:
    url = f"{site.origin}/broken/{BROKEN}"
    failed = [image for image in job.images if image.result == ingest_job_pb2.IMAGE_RESULT_FAILED]
    report.check("the broken gallery failed", ingest_job_pb2.INGEST_JOB_STATUS_FAILED, job.status)
    report.check("it made no draft", "", job.draft_id)
    report.check("the broken image is named, and no other", [url], [image.url for image in failed])
    report.check_that("the job's message names the image", url in job.error_message, job.error_message)
    report.note(
        "gallery: with a broken image",
        f"failed, {job.failure_reason}: {job.error_message}",
        job_id=job.job_id,
    )
