"""Domain errors of the asr context: one class for each fact, the reason is part of the contract."""

from libs.common.errors import DomainError, Kind


class MaterialNotFound(DomainError):
    """No live material has this id."""

    kind = Kind.NOT_FOUND
    reason = "MATERIAL_NOT_FOUND"


class UploadNotFound(DomainError):
    """No upload has this id."""

    kind = Kind.NOT_FOUND
    reason = "UPLOAD_NOT_FOUND"


class VideoProjectNotFound(DomainError):
    """No video project has this id."""

    kind = Kind.NOT_FOUND
    reason = "VIDEO_PROJECT_NOT_FOUND"


class ClipNotFound(DomainError):
    """No clip has this id."""

    kind = Kind.NOT_FOUND
    reason = "CLIP_NOT_FOUND"


class EditingDraftNotFound(DomainError):
    """No editing draft has this id."""

    kind = Kind.NOT_FOUND
    reason = "EDITING_DRAFT_NOT_FOUND"


class EditingDraftNotCompleted(DomainError):
    """The draft's file isn't there yet, or never will be."""

    kind = Kind.FAILED_PRECONDITION
    reason = "EDITING_DRAFT_NOT_COMPLETED"


class EditingDraftBusy(DomainError):
    """A run on the draft is on."""

    kind = Kind.FAILED_PRECONDITION
    reason = "EDITING_DRAFT_BUSY"


class VideoProjectNotCompleted(DomainError):
    """The project has no clips yet, or never will have."""

    kind = Kind.FAILED_PRECONDITION
    reason = "VIDEO_PROJECT_NOT_COMPLETED"


class NoThumbnail(DomainError):
    """The clip has sound only, hence no still picture."""

    kind = Kind.NOT_FOUND
    reason = "NO_THUMBNAIL"


class ObjectLost(DomainError):
    """A row names an object that the store does not hold any more."""

    kind = Kind.DATA_LOSS
    reason = "OBJECT_LOST"


class DebugRunNotFound(DomainError):
    """No run of the material has this version, or its record is gone."""

    kind = Kind.NOT_FOUND
    reason = "DEBUG_RUN_NOT_FOUND"


class NameTaken(DomainError):
    """Another live material has this name."""

    kind = Kind.ALREADY_EXISTS
    reason = "NAME_TAKEN"


class UploadTaken(DomainError):
    """Another live material was made of this upload."""

    kind = Kind.ALREADY_EXISTS
    reason = "UPLOAD_TAKEN"


class RequestIdReused(DomainError):
    """The request id belongs to a request with other content."""

    kind = Kind.ALREADY_EXISTS
    reason = "REQUEST_ID_REUSED"


class UploadIncomplete(DomainError):
    """The upload is not finished: bytes are missing."""

    kind = Kind.FAILED_PRECONDITION
    reason = "UPLOAD_INCOMPLETE"


class OffsetMismatch(DomainError):
    """The chunks do not begin where the committed bytes end."""

    kind = Kind.FAILED_PRECONDITION
    reason = "OFFSET_MISMATCH"


class UploadOverrun(DomainError):
    """More bytes came than the upload was said to have."""

    kind = Kind.FAILED_PRECONDITION
    reason = "UPLOAD_OVERRUN"


class Sha1Mismatch(DomainError):
    """The bytes stored are not the bytes that the client announced."""

    kind = Kind.DATA_LOSS
    reason = "SHA1_MISMATCH"


class MaterialBusy(DomainError):
    """A run on the material, or on one of its video projects, is on."""

    kind = Kind.FAILED_PRECONDITION
    reason = "MATERIAL_BUSY"


class VideoProjectBusy(DomainError):
    """A run on the video project, or on one of its drafts, is on."""

    kind = Kind.FAILED_PRECONDITION
    reason = "VIDEO_PROJECT_BUSY"


class AsrNotResettable(DomainError):
    """The transcription is pending or running already."""

    kind = Kind.FAILED_PRECONDITION
    reason = "ASR_NOT_RESETTABLE"


class AsrNotCancellable(DomainError):
    """There is no pending or running transcription."""

    kind = Kind.FAILED_PRECONDITION
    reason = "ASR_NOT_CANCELLABLE"


class AsrNotCompleted(DomainError):
    """The transcription has not completed."""

    kind = Kind.FAILED_PRECONDITION
    reason = "ASR_NOT_COMPLETED"


class NoTranscript(DomainError):
    """The material has no transcript yet."""

    kind = Kind.FAILED_PRECONDITION
    reason = "NO_TRANSCRIPT"


class NoSpeechInSelection(DomainError):
    """Nobody speaks in the selected span."""

    kind = Kind.FAILED_PRECONDITION
    reason = "NO_SPEECH_IN_SELECTION"


class Superseded(DomainError):
    """Another task is the current one: this run's result is not wanted any more."""

    kind = Kind.FAILED_PRECONDITION
    reason = "SUPERSEDED"


class LeaseLost(DomainError):
    """The run is not the current one any more: stop at once and write nothing."""

    kind = Kind.ABORTED
    reason = "LEASE_LOST"
