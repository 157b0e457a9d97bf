"""What a person can do about a refusal, by the server's reason."""

# By reason, or context and reason where two contexts mean different things by it.
CURES = {
    "TASK_NOT_FOUND": "`frontrow tasks --once` lists tasks with their ids; old ones are deleted",
    "TASK_NOT_CANCELLABLE": "it neither waits nor runs; `frontrow why TASK` tells what became of it",
    "TASK_NOT_RETRYABLE": "it neither failed nor was cancelled; `frontrow why TASK` tells where it stands",
    "JOB_NOT_FOUND": "`frontrow jobs` lists jobs with their ids",
    "ARTICLE_UNKNOWN": "never submitted; to ask all the same: --kind runway|street --source NAME",
    "SPIDER_NOT_FOUND": "`frontrow spiders list` names them",
    "SPIDER_EXISTS": "`frontrow spiders rotate NAME` gives it another key",
    "ingest.KEY_NOT_FOUND": "`frontrow spiders list` shows the keys",
    "TWO_KEYS_WORK": "take the old one away first: `frontrow spiders revoke KEY_ID`",
    "MATERIAL_NOT_FOUND": "`frontrow materials list` shows recordings with their ids",
    "NO_TRANSCRIPT": "it isn't transcribed (yet); `frontrow materials list` shows how far it is",
    "ASR_NOT_COMPLETED": "it isn't transcribed (yet); `frontrow materials list` shows how far it is",
    "DEBUG_RUN_NOT_FOUND": "`frontrow debug MATERIAL` lists the runs",
    "NAME_TAKEN": "choose another one with --name; `frontrow materials list -k NAME` shows who has it",
    "DRAFT_NOT_FOUND": "`frontrow drafts runway` and `frontrow drafts street` list drafts with their ids",
    "DRAFT_DELETED": "`frontrow drafts undelete KIND DRAFT_ID` takes the deletion back",
    "DRAFT_NOT_PENDING": "`frontrow drafts reopen KIND DRAFT_ID` takes the decision back",
    "DRAFT_NOT_EDITABLE": "`frontrow drafts reopen KIND DRAFT_ID` takes the rejection back",
    "ETAG_MISMATCH": "somebody was quicker: look at the draft again, then repeat what is still right",
    "KEY_INCOMPLETE": "`frontrow approve KIND DRAFT_ID --city … --year …` fills in and approves in one go",
    "UNKNOWN_BRAND": "`frontrow brands add NAME`, or `frontrow keys alias brand ID SPELLING`",
    "review.KEY_NOT_FOUND": "`frontrow keys list brand|city|season` shows the ids",
    "KEY_EXISTS": "if both mean the same: `frontrow keys merge brand|city|season ID SAME_AS`",
    "KEY_MERGED": "`frontrow keys unmerge` clears where it points",
    "MEDIA_NOT_FOUND": "`frontrow drafts KIND DRAFT_ID` shows the images with their object keys",
    "IMPLAUSIBLE_SHARE": "look at the report first (without --apply): so many at once are rarely meant",
    "STORE_UNAVAILABLE": "is the object store (FRONTROW_OBJECT_STORE) reachable from the review server?",
    "RATE_LIMITED": "wait as long as it says, then send again",
    "TOKEN_MISSING": "name the file with your token in FRONTROW_TOKEN_FILE",
    "TOKEN_UNKNOWN": "an admin gives you another one: `frontrow tokens add NAME --role …`",
    "CLOCK_SKEW": "set this machine's clock: a signature holds for 300 s",
}


def cure(context: str, reason: str) -> str:
    """Return what to do about a context's reason; empty when its message says all there is."""
    return CURES.get(f"{context}.{reason}") or CURES.get(reason, "")
