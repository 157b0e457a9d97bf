"""A gallery's images in hand: the job, an image that is ready for the store, and what became of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2
from frontrow.review.v1 import media_pb2
from frontrow.worker import Run

from libs.common.fetch_problems import HostPaused
from services.ingest.worker.decode import Decoded
from services.ingest.worker.download import Fetched
from services.ingest.worker.problems import ImageProblem

Image = gallery_pb2.GalleryImage
Outcome = ingest_job_pb2.ImageOutcome


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image that was downloaded and verified, with the files to store by key."""

    image: Image
    fetched: Fetched
    decoded: Decoded
    key: str
    thumbnails: tuple[tuple[str, Path], ...]

    def items(self) -> Iterator[media_pb2.MediaItem]:
        """Yield what review keeps of the original and its thumbnails."""
        yield media_pb2.MediaItem(
            key=self.key,
            sha256=self.fetched.sha256,
            size_bytes=self.fetched.size,
            content_type=self.decoded.content_type,
            width=self.decoded.width,
            height=self.decoded.height,
            dhash=self.decoded.dhash,
        )
        for (key, _), thumbnail in zip(self.thumbnails, self.decoded.thumbnails, strict=True):
            yield media_pb2.MediaItem(
                key=key,
                sha256=thumbnail.sha256,
                size_bytes=thumbnail.size,
                content_type="image/webp",
                width=thumbnail.width,
                height=thumbnail.height,
                parent_key=self.key,
            )

    def outcome(self) -> Outcome:
        """Return what the job keeps of it."""
        return Outcome(
            url=self.image.url,
            result=ingest_job_pb2.IMAGE_RESULT_STORED,
            media_key=self.key,
            sha256=self.fetched.sha256,
            size_bytes=self.fetched.size,
            content_type=self.decoded.content_type,
            width=self.decoded.width,
            height=self.decoded.height,
            dhash=self.decoded.dhash,
            thumbnail_keys=[key for key, _ in self.thumbnails],
        )


@dataclass(slots=True)
class Gathered:
    """What became of a gallery's images: keys by address, problems in the gallery's order, pauses of hosts.

    `paused_seconds` is the longest pause that is on. `pauses` counts, by address, those that hosts have asked
    for so far, and `most_pauses` is the most that any image has met whose host was asked in this run.
    """

    keys: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[Image, ImageProblem]] = field(default_factory=list)
    paused_seconds: float = 0.0
    pauses: dict[str, int] = field(default_factory=dict)
    most_pauses: int = 0

    def pause(self, image: Image, paused: HostPaused) -> None:
        """Note that an image's host wants to be left alone."""
        self.paused_seconds = max(self.paused_seconds, paused.seconds)
        if paused.asked:
            self.pauses[image.url] = self.pauses.get(image.url, 0) + 1
            self.most_pauses = max(self.most_pauses, self.pauses[image.url])
        message = f"its host asked for a pause, {self.pauses.get(image.url, 0)} times so far"
        self.problems.append((image, ImageProblem("SERVER_BUSY", message)))


@dataclass(frozen=True, slots=True)
class Job:
    """The job in hand; `kept` are the outcomes of earlier tries, by the image's address."""

    run: Run
    job_id: str
    gallery: gallery_pb2.Gallery
    kept: Mapping[str, Outcome]
