"""Who may call what: one table for all services. `admin` may call everything; what isn't here, nobody else.

* `spider`: crawlers and their authors. Their submissions carry a signature instead of a token.
* `worker`, `service`: our own processes; they act for whom they name.
* `editor`: drafts, keys, recordings. `ops`: tasks, queues, jobs, clean-up.
"""

from collections.abc import Iterable

from libs.common.access import ANYONE, Rules

ROLES = ("spider", "worker", "service", "editor", "ops", "admin")

_ADMIN = ""

_ROLES: dict[str, dict[str, str]] = {
    "grpc.health.v1.Health": {"Check Watch List": "anyone"},
    "grpc.reflection.v1alpha.ServerReflection": {
        "ServerReflectionInfo": "spider worker service editor ops",
    },
    "frontrow.task.v1.TaskService": {
        "CreateTask BatchCreateTasks": "service ops",
        "GetTask BatchGetTasks ListTasks WatchTasks ExplainTask": "service worker editor ops",
        "ClaimTasks Heartbeat FinishTasks UpdateTaskUrls": "worker",
        "CancelTask": "service editor ops",
        "RetryTask": "editor ops",
        "RequeueStaleTasks SetQueuePolicy": "ops",
        "ListQueues ListWorkers": "editor ops",
    },
    "frontrow.ingest.v1.IngestService": {
        "SubmitGallery": "anyone",
        "GetIngestJob ListIngestJobs ExplainSource": "spider editor ops",
        "RetryIngestJobs": "editor ops",
        "ListSpiders": "ops",
        "CreateSpider RotateSpiderKey RevokeSpiderKey PurgeIngestJobs": _ADMIN,
    },
    "frontrow.ingest.v1.IngestWorkService": {"BeginJob RecordImages FinishJob PauseHost": "worker"},
    "frontrow.review.v1.IntakeService": {
        "CheckSource FindOfficial": "service worker",
        "ReserveMedia ConfirmMedia CreateRunwayDraft CreateStreetSnapDraft": "worker",
    },
    "frontrow.review.v1.DraftService": {
        "ListDrafts GetDraft GetDraftMedia": "service editor ops",
        "UpdateDraft ApproveDraft RejectDraft ReopenDraft DeleteDraft UndeleteDraft": "editor",
        "PurgeDraft": _ADMIN,
    },
    "frontrow.review.v1.CatalogService": {
        "ListRunways GetRunway ListStreetSnaps GetStreetSnap ListBrands GetMedia": "anyone",
    },
    "frontrow.review.v1.KeyService": {
        "ListBrandKeys ListCities ListSeasons": "editor ops",
        "CreateBrand AddBrandAlias CreateCity AddCityAlias CreateSeason AddSeasonAlias": "editor",
        "MergeKeys UnmergeKeys": "editor",
    },
    "frontrow.review.v1.MediaService": {
        "CleanUpMedia VerifyMedia": "ops",
        "FindSimilar DismissSimilar": "editor",
    },
    "frontrow.asr.v1.LiveMaterialService": {
        "CreateLiveMaterial UploadMedia GetUpload UpdateLiveMaterial DeleteLiveMaterial ResetASRToPending "
        "CancelTranscription": "editor",
        "GetLiveMaterial ListLiveMaterials GetTranscript SearchTranscripts ExportTranscript": "editor ops",
        "GetDebugRecord PinDebugRecord": "editor ops",
    },
    "frontrow.asr.v1.TranscriptionService": {
        "BeginTranscription GetTranscriptParts UpdateTranscriptionProgress SaveTranscriptPart "
        "CompleteTranscription FailTranscription SaveFetchedPiece FinishFetch": "worker",
    },
    "frontrow.asr.v1.VideoProjectService": {
        "CreateVideoProject DeleteVideoProject CreateEditingDraft DeleteEditingDraft DownloadMedia": "editor",
        "GetVideoProject ListVideoProjects ListClips GetEditingDraft ListEditingDrafts": "editor ops",
    },
    "frontrow.asr.v1.SlicingService": {"GetSlicingInput SaveClips SaveDraft FailSlicing": "worker"},
}


def _rows() -> Iterable[tuple[str, frozenset[str]]]:
    for service, methods in _ROLES.items():
        for names, roles in methods.items():
            for name in names.split():
                yield f"/{service}/{name}", ANYONE if roles == "anyone" else frozenset(roles.split())


RULES = Rules(dict(_rows()), processes=frozenset({"service", "worker"}), metrics=frozenset({"ops"}))
