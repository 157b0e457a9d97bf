"""Between the wire and the rows: galleries, jobs, images, spiders."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_work_service_pb2, spider_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from libs.common.errors import FieldViolation, InvalidArgument
from libs.common.source import normalise_source, normalise_url, source_violations
from services.ingest.image_url import image_url_problem
from services.ingest.models import AnyRow

_KINDS = {gallery_pb2.GALLERY_KIND_RUNWAY: "runway", gallery_pb2.GALLERY_KIND_STREET_SNAP: "street_snap"}
_STATUSES = {
    "pending": ingest_job_pb2.INGEST_JOB_STATUS_PENDING,
    "processing": ingest_job_pb2.INGEST_JOB_STATUS_PROCESSING,
    "done": ingest_job_pb2.INGEST_JOB_STATUS_DONE,
    "failed": ingest_job_pb2.INGEST_JOB_STATUS_FAILED,
}
_DONE_REASONS = {
    "created": ingest_job_pb2.DONE_REASON_CREATED,
    "source_duplicate": ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE,
    "source_conflict": ingest_job_pb2.DONE_REASON_SOURCE_CONFLICT,
    "entity_duplicate": ingest_job_pb2.DONE_REASON_ENTITY_DUPLICATE,
}
_RESULTS = {"stored": ingest_job_pb2.IMAGE_RESULT_STORED, "failed": ingest_job_pb2.IMAGE_RESULT_FAILED}
_BLOCKERS = {
    "draft": ingest_job_pb2.BLOCKER_KIND_DRAFT,
    "official": ingest_job_pb2.BLOCKER_KIND_OFFICIAL,
}
_TIMES = {"created_at": "create_time", "started_at": "start_time", "finished_at": "finish_time"}


def _name_of(names: dict[str, Any], value: int) -> str:
    return next((name for name, number in names.items() if number == value), "")


def kind_name(kind: int) -> str:
    """Return how a kind is stored. Raises KeyError for one that is not."""
    return _KINDS[gallery_pb2.GalleryKind.ValueType(kind)]


def status_name(status: int) -> str:
    """Return how a status is stored, empty for the unspecified one."""
    return _name_of(_STATUSES, status)


def done_reason_name(reason: int) -> str:
    """Return how a reason is stored, empty for the unspecified one."""
    return _name_of(_DONE_REASONS, reason)


def normalised(gallery: gallery_pb2.Gallery) -> gallery_pb2.Gallery:
    """Return a copy with normalised source, sorted images and each address once.

    Positions count from 1 afterwards: an image's position is its name within the job.

    Raises:
        InvalidArgument: a field is wrong; each is named.
    """
    copy = gallery_pb2.Gallery()
    copy.CopyFrom(gallery)
    copy.source, copy.source_url = normalise_source(gallery.source), normalise_url(gallery.source_url)
    violations = source_violations(copy.source, copy.source_url, "gallery.")
    # read once: each look into a message makes an object
    images = [(image.position, image.url, image.caption) for image in gallery.images]
    for index, (_, url, _) in enumerate(images):
        problem = image_url_problem(url)
        if problem is not None:
            violations.append(FieldViolation(f"gallery.images[{index}].url", problem))
    refuse_if_any(violations)
    in_order = all(image[0] == place for place, image in enumerate(images, 1))
    if in_order and len({url for _, url, _ in images}) == len(images):
        return copy  # as most spiders send them
    del copy.images[:]
    seen: set[str] = set()
    for _, url, caption in sorted(images, key=lambda image: image[0]):
        if url not in seen:
            seen.add(url)
            copy.images.add(url=url, caption=caption, position=len(seen))
    return copy


def refuse_if_any(violations: Sequence[FieldViolation]) -> None:
    """Return if nothing is wrong. Raises InvalidArgument with every field at fault."""
    if violations:
        first = violations[0]
        raise InvalidArgument(f"{first.field}: {first.description}", violations=violations)


def digest(gallery: gallery_pb2.Gallery) -> bytes:
    """Return what tells this gallery from another under one request id."""
    return hashlib.sha256(gallery.SerializeToString(deterministic=True)).digest()


def job_message(row: AnyRow) -> ingest_job_pb2.IngestJob:
    """Make the wire's job of a row, without images."""
    job = ingest_job_pb2.IngestJob(
        job_id=str(row.id),
        status=_STATUSES[row.status],
        done_reason=_DONE_REASONS.get(row.done_reason, ingest_job_pb2.DONE_REASON_UNSPECIFIED),
        failure_reason=row.failure_reason,
        error_message=row.error_message,
        kind=gallery_pb2.GalleryKind.ValueType(_name_of_kind(row.kind)),
        title=row.title,
        source=row.source,
        source_url=row.source_url,
        spider_id=str(row.spider_id),
        task_id=str(row.task_id),
        task_version=row.seen_task_version,
        attempts=row.attempts,
        draft_id=row.draft_id,
        image_count=row.image_count,
    )
    if row.blocker is not None:
        job.blocker.CopyFrom(blocker_message(row.blocker))
    for column, field in _TIMES.items():
        if getattr(row, column) is not None:
            getattr(job, field).FromDatetime(getattr(row, column))
    return job


def _name_of_kind(name: str) -> int:
    return next(number for number, stored in _KINDS.items() if stored == name)


def blocker_message(stored: dict[str, Any]) -> ingest_job_pb2.Blocker:
    """Make the wire's blocker of what a row keeps."""
    return ingest_job_pb2.Blocker(**{**stored, "kind": _BLOCKERS[stored["kind"]]})


def blocker_values(blocker: ingest_job_pb2.Blocker) -> dict[str, Any]:
    """Make what a row keeps of the wire's blocker."""
    return {
        "kind": _name_of(_BLOCKERS, blocker.kind),
        "id": blocker.id,
        "status": blocker.status,
        "deleted": blocker.deleted,
        "decided_by": blocker.decided_by,
        "decision_reason": blocker.decision_reason,
    }


def image_messages(gallery: gallery_pb2.Gallery, rows: Iterable[AnyRow]) -> list[ingest_job_pb2.ImageOutcome]:
    """Make one outcome for each image of a gallery, pending where nothing is kept."""
    kept = {row.position: row for row in rows}
    return [_image_message(image, kept.get(image.position)) for image in gallery.images]


def kept_messages(rows: Iterable[AnyRow]) -> list[ingest_job_pb2.ImageOutcome]:
    """Make the outcomes that are kept, without addresses and sentences.

    Beside the largest gallery, which says the addresses already, both would be too much for one message.
    """
    kept = [_outcome(row.position, row) for row in rows]
    for outcome in kept:
        outcome.ClearField("message")
    return kept


def _image_message(image: gallery_pb2.GalleryImage, row: AnyRow | None) -> ingest_job_pb2.ImageOutcome:
    if row is None:
        pending = ingest_job_pb2.IMAGE_RESULT_PENDING
        return ingest_job_pb2.ImageOutcome(url=image.url, position=image.position, result=pending)
    outcome = _outcome(image.position, row)
    outcome.url = image.url
    return outcome


def _outcome(position: int, row: AnyRow) -> ingest_job_pb2.ImageOutcome:
    outcome = ingest_job_pb2.ImageOutcome(position=position, result=_RESULTS[row.result])
    for name in _IMAGE_TEXTS:
        setattr(outcome, name, getattr(row, name))
    outcome.thumbnail_keys.extend(row.thumbnail_keys)
    return outcome


_IMAGE_TEXTS = (
    "reason",
    "message",
    "media_key",
    "sha256",
    "size_bytes",
    "content_type",
    "width",
    "height",
    "dhash",
    "pauses",
)


def pause_messages(rows: Sequence[AnyRow]) -> list[ingest_work_service_pb2.HostPause]:
    """Return the hosts to be left alone, each with what is left of its pause."""
    return [ingest_work_service_pb2.HostPause(host=row.host, pause=row.length) for row in rows]


def image_values(
    gallery: gallery_pb2.Gallery, outcomes: Sequence[ingest_job_pb2.ImageOutcome]
) -> list[dict[str, Any]]:
    """Make rows of reported outcomes, the last one for each address.

    Raises:
        InvalidArgument: an address is not in the gallery, or a result is neither stored nor failed.
    """
    positions = {image.url: image.position for image in gallery.images}
    found: dict[int, dict[str, Any]] = {}
    for index, outcome in enumerate(outcomes):
        result = _name_of(_RESULTS, outcome.result)
        if outcome.url not in positions:
            raise InvalidArgument.of_field(f"images[{index}].url", "must be an address of the gallery")
        if not result:
            raise InvalidArgument.of_field(f"images[{index}].result", "must be STORED or FAILED")
        texts = {name: getattr(outcome, name) for name in _IMAGE_TEXTS}
        texts["message"] = outcome.message[:500]
        keys = list(outcome.thumbnail_keys)
        position = positions[outcome.url]
        found[position] = {**texts, "position": position, "result": result, "thumbnail_keys": keys}
    return list(found.values())


def spider_message(row: AnyRow, keys: Iterable[AnyRow]) -> spider_pb2.Spider:
    """Make the wire's spider of a row and its keys."""
    spider = spider_pb2.Spider(spider_id=str(row.id), name=row.name)
    spider.create_time.FromDatetime(row.created_at)
    for key in keys:
        message = spider.keys.add(key_id=key.key_id)
        message.create_time.FromDatetime(key.created_at)
        if key.revoked_at is not None:
            message.revoke_time.FromDatetime(key.revoked_at)
    return spider


def time_of(value: Timestamp, field: str) -> datetime:
    """Return an aware UTC time. Raises InvalidArgument naming `field` outside of years 1 to 9999."""
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument.of_field(field, "must lie within the years 1 to 9999") from error
