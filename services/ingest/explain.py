"""Put into words what each layer of dedupe makes of an article (domain.md 3.3)."""

from __future__ import annotations

from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2

from services.ingest.peers import Found, IntakeChecks

Layer = ingest_service_pb2.ExplainedLayer
PASSES = ingest_service_pb2.LAYER_VERDICT_PASSES
BLOCKS = ingest_service_pb2.LAYER_VERDICT_BLOCKS

# Nobody's job: review then knows no draft as the asker's own.
NO_JOB = "explain"


async def ask(checks: IntakeChecks, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
    """Ask review what stands in the way of a gallery, in the order in which the worker asks."""
    found = await checks.check_source(job_id, gallery)
    if found.own_draft_id or found.blocker is not None:
        return found
    return await checks.find_official(job_id, gallery)


async def layers(checks: IntakeChecks, gallery: gallery_pb2.Gallery, submissions: int) -> list[Layer]:
    """Return what every layer says now, in the order in which they are asked."""
    source = await checks.check_source(NO_JOB, gallery)
    return [
        _transport(submissions),
        _source(source),
        await _entity(checks, gallery),
        Layer(
            layer=ingest_service_pb2.DEDUPE_LAYER_CONTENT,
            verdict=PASSES,
            explanation="Identical images are stored once; that never keeps an article out.",
        ),
    ]


def _transport(submissions: int) -> Layer:
    return Layer(
        layer=ingest_service_pb2.DEDUPE_LAYER_TRANSPORT,
        verdict=PASSES,
        explanation=f"{_accepted(submissions)} accepted so far;"
        " a new one needs a fresh nonce, as every call does.",
    )


def _accepted(submissions: int) -> str:
    of_it = "1 submission of this address was"
    return of_it if submissions == 1 else f"{submissions} submissions of this address were"


def _source(found: Found) -> Layer:
    layer = Layer(layer=ingest_service_pb2.DEDUPE_LAYER_SOURCE, verdict=PASSES)
    if found.blocker is None:
        layer.explanation = "No draft has this source and address."
        return layer
    blocker = found.blocker
    layer.verdict = BLOCKS
    layer.blocker.CopyFrom(blocker)
    layer.explanation = f"An article is taken once, and {blocker_words(blocker)} has this one."
    if blocker.deleted:
        layer.actions.append(f"UndeleteDraft {blocker.id} brings it back as it was.")
    elif blocker.status == "rejected":
        layer.actions.append(f"ReopenDraft {blocker.id} puts it before the editors again.")
    elif blocker.status == "pending":
        layer.actions.append(f"Draft {blocker.id} waits for an editor: approve or reject it.")
    layer.actions.append(
        f"PurgeDraft {blocker.id} removes it for good and frees the address; then submit again, or run the"
        " skipped job again with RetryIngestJobs."
    )
    return layer


async def _entity(checks: IntakeChecks, gallery: gallery_pb2.Gallery) -> Layer:
    layer = Layer(layer=ingest_service_pb2.DEDUPE_LAYER_ENTITY, verdict=PASSES)
    if not gallery.images:
        layer.verdict = ingest_service_pb2.LAYER_VERDICT_UNKNOWN
        layer.explanation = "The article was never submitted: its brand, season or city are not known here."
        return layer
    found = await checks.find_official(NO_JOB, gallery)
    if found.unknown_brand:
        layer.verdict = BLOCKS
        layer.explanation = f"The brand {gallery.brand!r} is unknown: the job fails."
        layer.actions.append("CreateBrand, or AddBrandAlias, then RetryIngestJobs for UNKNOWN_BRAND.")
    elif found.blocker is not None:
        layer.verdict = BLOCKS
        layer.blocker.CopyFrom(found.blocker)
        layer.explanation = (
            f"{blocker_words(found.blocker).capitalize()} shows {key_words(gallery)} already: once one"
            " article of a key is public, later ones are skipped."
        )
        layer.actions.append(
            "To add this article's images, reopen or delete the approved drafts of that row, which hides it,"
            " run the job again with RetryIngestJobs, and approve all of them."
        )
    elif key := key_words(gallery):
        layer.explanation = f"Nothing public shows {key} yet."
    else:
        layer.explanation = (
            "It names no whole key (brand and season, or city and year): it is compared with nothing, and the"
            " editor is asked for what is missing."
        )
    return layer


def blocker_words(blocker: ingest_job_pb2.Blocker) -> str:
    """Name a blocker, its status and who decided on it."""
    if blocker.kind == ingest_job_pb2.BLOCKER_KIND_OFFICIAL:
        return f"official row {blocker.id}"
    words = f"draft {blocker.id} ({blocker.status}{', deleted' if blocker.deleted else ''})"
    if blocker.decided_by:
        words += f", decided by {blocker.decided_by}"
    if blocker.decision_reason:
        words += f": {blocker.decision_reason}"
    return words


def key_words(gallery: gallery_pb2.Gallery) -> str:
    """Return a gallery's key as people say it; empty for one that is not whole (domain.md 3.7)."""
    if gallery.kind == gallery_pb2.GALLERY_KIND_RUNWAY:
        texts = (gallery.brand, gallery.season_code, gallery.collection)
        return " ".join(filter(None, texts)) if gallery.brand and gallery.season_code else ""
    if not gallery.city or not gallery.year:
        return ""
    month = f"-{gallery.month:02d}" if gallery.month else ""
    return f"{gallery.city} {gallery.year}{month}"
