"""What a person can do about a refusal or a failure, by its stable reason."""

from collections.abc import Iterable

_AGAIN = "it is over soon: run the same command again; `frontrow status` tells if a server is ill"
_ORIGINAL = "look at the file with a player: copy or record it anew, then `frontrow materials add FILE`"
_LOST = "bring back a backup of the store (`frontrow db restore FOLDER`), or add the recording again"
_PATIENCE = "it was tried several times: `frontrow jobs retry JOB_ID` or `frontrow tasks retry TASK`, later"
_ADDRESS = "open the address in a browser; a right one must be submitted, or added, anew"
_BUSY = "wait until it has ended (`frontrow tasks` shows it), or `frontrow tasks cancel TASK`"
_PICTURE = "the source has it so: submit the gallery without it, or with another address"
_IMAGES = "`frontrow drafts KIND DRAFT_ID` shows the images with their object keys"
_LOG = "the log has it whole: DATA_DIR/frontrow.log, or FRONTROW_LOG_FILE"
_TRANSCRIBED = "it isn't transcribed (yet); `frontrow materials list` shows how far it is"
_UPLOAD = "`frontrow materials add FILE` begins another upload"

# By reason, or context and reason where two contexts mean different things by it.
CURES = {
    # every server
    "DATABASE_UNAVAILABLE": "is PostgreSQL (FRONTROW_DATABASE_URL) up? `frontrow status` tells; then again",
    "DEADLINE_EXCEEDED": "`frontrow status` tells if the server is well; look what was done, then again",
    "STORE_UNAVAILABLE": "is the object store (FRONTROW_OBJECT_STORE) there, with room, for that server?",
    "PEER_UNAVAILABLE": "`frontrow status` tells which server doesn't answer",
    "SERVER_STOPPING": _AGAIN,
    "TOKEN_MISSING": "name the file with your token in FRONTROW_TOKEN_FILE",
    "TOKEN_UNKNOWN": "an admin gives you another one: `frontrow tokens add NAME --role …`",
    "ROLE_MISSING": "an admin gives you a token with that role: `frontrow tokens add NAME --role …`",
    "CERTIFICATE_MISSING": "a process needs its own FRONTROW_TLS_CERT and _KEY: `frontrow certificates init`",
    "ACTOR_REQUIRED": "say who you are in FRONTROW_ACTOR",
    # tasks
    "TASK_NOT_FOUND": "`frontrow tasks --once` lists tasks with their ids; old ones are deleted",
    "TASK_NOT_CANCELLABLE": "it neither waits nor runs; `frontrow why TASK` tells what became of it",
    "TASK_NOT_RETRYABLE": "it neither failed nor was cancelled; `frontrow why TASK` tells where it stands",
    "TASK_REFUSED": "its task was refused, as the message says; mend that, then `frontrow jobs retry JOB_ID`",
    "TASK_REJECTED": "its task was refused, as the message says; mend that, then the same command again",
    "QUEUE_BUSY": "a transaction is open for long; the same command again, nothing was set so far",
    "ABANDONED": "its workers were lost each time: `frontrow why TASK` names them, and says how to go on",
    "CANCELLED": "`frontrow tasks retry TASK` runs it after all",
    "TRIES_USED_UP": _PATIENCE,
    "FAILED": "`frontrow why TASK` tells of each run; `frontrow tasks retry TASK` runs it again",
    # spiders, submissions and jobs
    "JOB_NOT_FOUND": "`frontrow jobs` lists jobs with their ids",
    "ARTICLE_UNKNOWN": "never submitted; to ask all the same: --kind runway|street --source NAME",
    "SPIDER_NOT_FOUND": "`frontrow spiders list` names them",
    "SPIDER_EXISTS": "`frontrow spiders rotate NAME` gives it another key",
    "ingest.KEY_NOT_FOUND": "`frontrow spiders list` shows the keys",
    "TWO_KEYS_WORK": "take the old one away first: `frontrow spiders revoke KEY_ID`",
    "UNKNOWN_KEY": "`frontrow spiders list` shows the keys; `frontrow spiders rotate NAME` makes one",
    "BAD_SIGNATURE": "check that the secret is the one of that key id (`frontrow spiders rotate NAME` makes "
    "both anew), that this machine's clock is right, and that the bytes sent are the bytes signed",
    "CLOCK_SKEW": "set this machine's clock: a signature holds for 300 s",
    "NONCE_REPLAYED": "sign each attempt anew, under the same request id",
    "RATE_LIMITED": "wait as long as it says, then send again",
    "SEALING_KEY_CHANGED": "restore FRONTROW_INGEST_SEALING_KEY, or `frontrow spiders rotate NAME`",
    "FIRST_JOB_GONE": "submit again",
    "REQUEST_ID_REUSED": "another content needs another request id; the same content is there already",
    "OWN_DRAFT": "`frontrow drafts purge KIND DRAFT_ID` removes the draft that it made, for good",
    "STILL_BLOCKED": "`frontrow explain URL` says what to do about what is in its way",
    "STILL_OPEN": "`frontrow jobs JOB_ID` shows how far it is",
    "SOURCE_EXISTS": "`frontrow explain URL` says which draft has the article, and what to do",
    # images and recordings that are fetched
    "ingest.ADDRESS_BLOCKED": "images come from the public internet alone; from this machine (development): "
    "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK=true for `frontrow up`, then `frontrow jobs retry JOB_ID`",
    "asr.ADDRESS_BLOCKED": "recordings come from the public internet alone; from this machine (development): "
    "FRONTROW_ASR_FETCH_ALLOW_LOOPBACK=true for `frontrow up`; or give the file itself",
    "IMAGE_REJECTED": "`frontrow jobs JOB_ID` shows what is wrong with each image, and what to do about it",
    "BAD_URL": "only whole addresses that begin with http:// or https://, without a password, are fetched",
    "BAD_REDIRECT": _ADDRESS,
    "REDIRECT_LOOP": _ADDRESS,
    "HTTP_STATUS": f"{_ADDRESS}; many 403: the site wants none of our fetches",
    "ENCODING": "the site sends what was not asked for: download it yourself, and add the file",
    "DNS": "is the name right, and can the worker's machine resolve it?",
    "CONNECTION": f"can the worker's machine reach the host? {_PATIENCE}",
    "TIMEOUT": _PATIENCE,
    "CUT_SHORT": _PATIENCE,
    "SERVER_BUSY": "wait a little, then again; a site that is fetched from wants fewer calls a minute",
    "ingest.TOO_LARGE": "a smaller picture is needed; FRONTROW_INGEST_WORKER_MAX_IMAGE_BYTES is the limit",
    "asr.TOO_LARGE": "FRONTROW_ASR_FETCH_MAX_BYTES is the limit",
    "NOT_AN_IMAGE": "an address of a JPEG, PNG, WebP, AVIF or GIF is needed, not of the page that shows it",
    "BROKEN_IMAGE": _PICTURE,
    "TOO_MANY_FRAMES": _PICTURE,
    "TOO_MANY_PIXELS": _PICTURE,
    "DECODER_CRASHED": _PICTURE,
    "DECODE_TIMEOUT": _PICTURE,
    # recordings and transcripts
    "MATERIAL_NOT_FOUND": "`frontrow materials list` shows recordings with their ids",
    "NO_TRANSCRIPT": _TRANSCRIBED,
    "ASR_NOT_COMPLETED": _TRANSCRIBED,
    "ASR_NOT_RESETTABLE": "it waits or runs already; `frontrow tasks --type asr` shows how far it is",
    "ASR_NOT_CANCELLABLE": "nothing waits or runs; `frontrow materials list` shows where it stands",
    "DEBUG_RUN_NOT_FOUND": "`frontrow debug MATERIAL` lists the runs",
    "NAME_TAKEN": "choose another one with --name; `frontrow materials list -k NAME` shows who has it",
    "UPLOAD_NOT_FOUND": _UPLOAD,
    "UPLOAD_INCOMPLETE": "`frontrow materials add FILE` goes on where it broke off",
    "UPLOAD_OVERRUN": f"the file grew meanwhile; {_UPLOAD}",
    "OFFSET_MISMATCH": f"two sent the same upload; {_UPLOAD}",
    "UPLOAD_TAKEN": "`frontrow materials list` shows the recording that was made of it",
    "SHA1_MISMATCH": f"the bytes changed on their way; {_UPLOAD}",
    "MATERIAL_BUSY": _BUSY,
    "EMPTY_FILE": _ORIGINAL,
    "NOT_MEDIA": "a recording is needed that ffmpeg reads (mp4, flv, ts, mkv, …), not a page or a playlist",
    "MOOV_MISSING": "the recorder was stopped too early: repair the file, or record to ts or flv",
    "NO_AUDIO_TRACK": "a recording with sound is needed: was the right file, or the right track, recorded?",
    "AUDIO_UNDECODABLE": _ORIGINAL,
    "TRUNCATED": _ORIGINAL,
    "MEDIA_UNUSABLE": _ORIGINAL,
    "NO_SPEECH": "nothing is said in it: is the sound of the right microphone on it?",
    "RUN_TIMEOUT": "FRONTROW_ASR_WORKER_RUN_TIMEOUT_SECONDS is the limit; see `frontrow debug MATERIAL`",
    "ENGINE_UNREACHABLE": "is the speech server (FRONTROW_ASR_ENGINE_URL, FRONTROW_ASR_CLOUD_URL) up?",
    "ENGINE_DENIED": "is its key (FRONTROW_ASR_ENGINE_API_KEY, FRONTROW_ASR_CLOUD_API_KEY) right, its URL?",
    "NO_ENGINE": "`frontrow doctor` says what the speech engine lacks",
    "ASR_UNREACHABLE": "`frontrow status` tells if the asr server is well; the worker needs it",
    "FFMPEG_FAILED": f"`frontrow debug MATERIAL` shows the stage; {_LOG}",
    "FFMPEG_TIMEOUT": f"the worker's machine is too slow or too busy; {_PATIENCE}",
    "INPUT_GONE": f"see that the object store's disk is mounted on the worker's machine; {_PATIENCE}",
    "FFMPEG_KILLED": f"the machine has too little memory, or the recording breaks ffmpeg; {_PATIENCE}",
    "ENOMEM": f"the worker's machine has too little memory, or the recording asks for too much; {_PATIENCE}",
    "FFMPEG_MISSING": "`frontrow doctor` on the worker's machine says what is missing",
    "DISK_FULL": "make room on the worker's machine; it goes on by itself",
    "MEDIA_INFRASTRUCTURE": "`frontrow doctor` on the worker's machine says what is missing",
    "MACHINE_TROUBLE": "the worker's machine has no room, memory or descriptors left; it goes on by itself",
    "OS_ERROR": f"the worker's machine is at fault; {_LOG}",
    "asr.MEDIA_LOST": _LOST,
    "RECORDING_MISSING": _LOST,
    "CLIP_MISSING": "cut the clips anew: `frontrow slice MATERIAL_ID`",
    "OBJECT_LOST": _LOST,
    # clips and editing drafts
    "VIDEO_PROJECT_NOT_FOUND": "`frontrow slice MATERIAL_ID` makes a project and says its id",
    "VIDEO_PROJECT_NOT_COMPLETED": "`frontrow tasks --once` shows how far it is; slice a failed one again",
    "VIDEO_PROJECT_BUSY": _BUSY,
    "CLIP_NOT_FOUND": "`frontrow slice … --json` and ListClips name a project's clips",
    "EDITING_DRAFT_NOT_FOUND": "`frontrow draft list` shows drafts with their ids",
    "EDITING_DRAFT_NOT_COMPLETED": "`frontrow draft DRAFT` shows how far it is; a failed one is made again",
    "EDITING_DRAFT_BUSY": _BUSY,
    "NO_SPEECH_IN_SELECTION": "another span: `frontrow materials transcript MATERIAL` shows what is said",
    "SPAN_OUTSIDE": "choose a span within the recording; `frontrow materials list` shows its length",
    "NO_MATCH": "other words: `frontrow materials transcript MATERIAL` shows what is said; choosing "
    "by what a prompt means takes a language model (FRONTROW_LLM_BASE_URL)",
    "TOO_MANY_CLIPS": "fewer or longer words with -k, or a shorter recording",
    "EMPTY_DRAFT": "the chosen clips have neither picture nor sound nor words: make it of others (--clip)",
    "SLICING_FAILED": f"{_LOG}; `frontrow tasks retry TASK` runs it again",
    # drafts, keys and the catalogue
    "DRAFT_NOT_FOUND": "`frontrow drafts runway` and `frontrow drafts street` list drafts with their ids",
    "DRAFT_DELETED": "`frontrow drafts undelete KIND DRAFT_ID` takes the deletion back",
    "DRAFT_NOT_DELETED": "nothing is to be taken back; `frontrow drafts delete KIND DRAFT_ID` deletes it",
    "DRAFT_NOT_PENDING": "`frontrow drafts reopen KIND DRAFT_ID` takes the decision back",
    "DRAFT_NOT_DECIDED": "it waits for a decision: `frontrow approve` or `frontrow reject`",
    "DRAFT_NOT_EDITABLE": "`frontrow drafts reopen KIND DRAFT_ID` takes the rejection back",
    "ETAG_MISMATCH": "somebody was quicker: look at the draft again, then repeat what is still right",
    "REVIEW_BUSY": _AGAIN,
    "KEY_INCOMPLETE": "`frontrow approve KIND DRAFT_ID --city … --year …` fills in and approves in one go",
    "UNKNOWN_BRAND": "`frontrow brands add NAME`, or `frontrow keys alias brand ID SPELLING`; then "
    "`frontrow jobs retry --reason UNKNOWN_BRAND`",
    "review.KEY_NOT_FOUND": "`frontrow keys list brand|city|season` shows the ids",
    "KEY_EXISTS": "if both mean the same: `frontrow keys merge brand|city|season ID SAME_AS`",
    "KEY_MERGED": "`frontrow keys unmerge` clears where it points",
    "KEY_NOT_MERGED": "`frontrow keys list brand|city|season` shows which point at another one",
    "MERGE_CYCLE": "merge the other way round, or `frontrow keys unmerge` first",
    "RUNWAY_NOT_FOUND": "`frontrow catalogue runway` lists the public shows with their ids",
    "STREET_SNAP_NOT_FOUND": "`frontrow catalogue street` lists the public albums with their ids",
    "MEDIA_NOT_FOUND": _IMAGES,
    "review.MEDIA_LOST": "`frontrow media check` names all that is lost; a backup of the store has them",
    "MEDIA_BEING_DELETED": "the clean-up deletes it just now: again in a minute",
    "MEDIA_UNPUBLISHABLE": "hide it: `frontrow drafts hide KIND DRAFT_ID IMAGE`",
    "IMPLAUSIBLE_SHARE": "look at the report first (without --apply): so many at once are rarely meant",
}

# Nothing for a person to do, and why.
WITHOUT = {
    "INVALID_ARGUMENT": "its message names each field at fault and what would be right",
    "LEASE_LOST": "a worker's alone: another run goes on",
    "SUPERSEDED": "a worker's alone: another task goes on",
    "CONTENT_MISMATCH": "a worker's alone: stored objects are never overwritten",
    "MEDIA_NOT_LIVE": "a worker's alone: it stores the image first",
    "MEDIA_NOT_RESERVED": "a worker's alone: it reserves the image first",
    "PARENT_NOT_FOUND": "a worker's alone: it reserves the original first",
    "RELEASED": "a run that was given back, uncharged: the next one is on its way",
    "RETRY": "a run that failed and is tried again by itself",
    "REPLY_LOST": "a run that its worker never heard of: the next one is on its way",
    "STALE": "a run that was lost: the next one is on its way",
    "UNKNOWN_SERVICE": "only of a health check that names a service; the command line names none",
    "NO_THUMBNAIL": "only of a still picture of a clip, which no command asks for",
}


def cure(context: str, reason: str) -> str:
    """Return what to do about a context's reason; empty when its message says all there is."""
    return CURES.get(f"{context}.{reason}") or CURES.get(reason, "")


def cured(context: str, reasons: Iterable[str]) -> list[str]:
    """Return a line for each of these reasons that has a cure, each once, in their order."""
    found = {reason: cure(context, reason) for reason in reasons}
    return [f"{reason}: {advice}" for reason, advice in found.items() if advice]


def failure(context: str, reason: str, message: str) -> str:
    """Return what became of work that failed, and below it what to do."""
    return "\n  ".join(filter(None, [f"{reason}: {message}", cure(context, reason)]))
