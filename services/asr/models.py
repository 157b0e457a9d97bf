"""Tables of the asr schema.

The large things (a transcript's utterances, the kept parts) stand in tables of their own, so that lists of
materials never read them.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from libs.common.outbox_table import outbox_table

SCHEMA = "asr"
metadata = MetaData(schema=SCHEMA)

_NOW = text("now()")
_EMPTY = text("''")
_ZERO = text("0")


def _created() -> "Column[object]":
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=_NOW)


def _updated() -> "Column[object]":
    return Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_NOW)


def _trace() -> "Column[object]":
    """Return the trace in which the row was asked for, a W3C `traceparent`; '' when there was none."""
    return Column("trace_parent", Text, nullable=False, server_default=_EMPTY)


uploads = Table(
    "uploads",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("file_name", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("committed_bytes", BigInteger, nullable=False, server_default=_ZERO),
    Column("part_count", Integer, nullable=False, server_default=_ZERO),
    # what the client says the whole hashes to; '' when it does not say
    Column("expected_sha1", Text, nullable=False, server_default=_EMPTY),
    # '' until the upload is finished
    Column("sha1", Text, nullable=False, server_default=_EMPTY),
    Column("media_key", Text, nullable=False, server_default=_EMPTY),
    # '' unless a run fetches the bytes; its size is 0 until the server that has them has told it
    Column("source_url", Text, nullable=False, server_default=_EMPTY),
    # what that server calls this state of its bytes: an ETag or a Last-Modified
    Column("validator", Text, nullable=False, server_default=_EMPTY),
    _trace(),
    _created(),
    _updated(),
    CheckConstraint(
        "committed_bytes >= 0 AND (size_bytes > 0 AND committed_bytes <= size_bytes"
        " OR size_bytes = 0 AND source_url <> '')",
        name="uploads_bytes",
    ),
    CheckConstraint(
        "sha1 = '' OR (committed_bytes = size_bytes AND media_key <> '')", name="uploads_finished"
    ),
)

upload_parts = Table(
    "upload_parts",
    metadata,
    Column("upload_id", Uuid, ForeignKey(uploads.c.id, ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("object_key", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
)

live_materials = Table(
    "live_materials",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("request_id", Text, nullable=False, server_default=_EMPTY),
    # sha256 of the create request, to tell a repeat from another content under the same request_id
    Column("request_digest", Text, nullable=False, server_default=_EMPTY),
    Column("name", Text, nullable=False),
    Column("remark", Text, nullable=False, server_default=_EMPTY),
    Column("upload_id", Uuid, ForeignKey(uploads.c.id, ondelete="RESTRICT"), nullable=False),
    Column("file_name", Text, nullable=False, server_default=_EMPTY),
    # '' when it was uploaded
    Column("media_url", Text, nullable=False, server_default=_EMPTY),
    # '' until a run has fetched it
    Column("media_key", Text, nullable=False),
    Column("canonical_key", Text, nullable=False, server_default=_EMPTY),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha1", Text, nullable=False),
    Column("duration_ms", BigInteger, nullable=False, server_default=_ZERO),
    Column("width", Integer, nullable=False, server_default=_ZERO),
    Column("height", Integer, nullable=False, server_default=_ZERO),
    Column("missing_seconds", Double, nullable=False, server_default=_ZERO),
    # [{"index", "codec", "channels", "sample_rate", "language", "transcribed"}, ...]; empty: not known
    Column("audio_tracks", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("asr_status", Text, nullable=False),
    Column("asr_version", BigInteger, nullable=False, server_default=_ZERO),
    Column("asr_task_id", Uuid),
    Column("seen_task_version", BigInteger, nullable=False, server_default=_ZERO),
    Column("asr_progress", SmallInteger, nullable=False, server_default=_ZERO),
    Column("asr_error_reason", Text, nullable=False, server_default=_EMPTY),
    Column("asr_error", Text, nullable=False, server_default=_EMPTY),
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    _trace(),
    _created(),
    _updated(),
    UniqueConstraint("name", name="live_materials_name_key"),
    UniqueConstraint("upload_id", name="live_materials_upload_key"),
    Index("live_materials_request_key", "request_id", unique=True, postgresql_where=text("request_id <> ''")),
    # the follower's polls
    Index("live_materials_active", "id", postgresql_where=text("asr_status IN ('pending', 'processing')")),
    Index("live_materials_failed", "updated_at", postgresql_where=text("asr_status = 'failed'")),
    Index("live_materials_failed_task", "asr_task_id", postgresql_where=text("asr_status = 'failed'")),
    CheckConstraint(
        "asr_status IN ('none', 'pending', 'processing', 'completed', 'failed')", name="live_materials_status"
    ),
    CheckConstraint("asr_progress BETWEEN 0 AND 100", name="live_materials_progress"),
    CheckConstraint("asr_status = 'none' OR asr_task_id IS NOT NULL", name="live_materials_task"),
)

# The chunks' results, kept until a run completes a transcript of them and a new one is asked for.
transcript_parts = Table(
    "transcript_parts",
    metadata,
    Column("material_id", Uuid, ForeignKey(live_materials.c.id, ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("asr_version", BigInteger, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("end_ms", BigInteger, nullable=False),
    Column("engine", Text, nullable=False, server_default=_EMPTY),
    Column("language", Text, nullable=False, server_default=_EMPTY),
    # a digest of the settings that change what an engine hears; '': of a worker that didn't say
    Column("made_with", Text, nullable=False, server_default=_EMPTY),
    # [{"s": start_ms, "e": end_ms, "t": text, "r": raw text, "w": [[text, start_ms, end_ms], ...]}, ...]
    Column("utterances", JSONB, nullable=False),
    _created(),
)

transcripts = Table(
    "transcripts",
    metadata,
    Column("material_id", Uuid, ForeignKey(live_materials.c.id, ondelete="CASCADE"), primary_key=True),
    Column("asr_version", BigInteger, nullable=False),
    Column("engine", Text, nullable=False, server_default=_EMPTY),
    Column("language", Text, nullable=False, server_default=_EMPTY),
    Column("summaries_source", Text, nullable=False, server_default=_EMPTY),
    # the utterances, in the form of transcript_parts.utterances
    Column("asr_raw", JSONB, nullable=False),
    # [{"title", "summary", "keywords", "start_ms", "end_ms", "first", "count"}, ...]
    Column("asr_summaries", JSONB, nullable=False),
    Column("utterance_count", Integer, nullable=False),
    _created(),
)

# asr_paragraphs: one row each, so that keyword groups are looked for paragraph by paragraph.
transcript_paragraphs = Table(
    "transcript_paragraphs",
    metadata,
    Column("material_id", Uuid, ForeignKey(transcripts.c.material_id, ondelete="CASCADE"), primary_key=True),
    Column("paragraph", Integer, primary_key=True),
    Column("start_ms", BigInteger, nullable=False),
    Column("end_ms", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("first_utterance", Integer, nullable=False),
    Column("utterance_count", Integer, nullable=False),
    # what it is found by, see transcript_terms; NULL until a row that an older release stored is indexed
    Column("grams", ARRAY(Text)),
    Column("sounds", Text),
    Index("transcript_paragraphs_grams", "grams", postgresql_using="gin"),
    Index(
        "transcript_paragraphs_unindexed",
        "material_id",
        "paragraph",
        postgresql_where=text("grams IS NULL"),
    ),
    CheckConstraint("char_length(text) BETWEEN 1 AND 200", name="transcript_paragraphs_text"),
)

video_projects = Table(
    "video_projects",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("live_material_id", Uuid, ForeignKey(live_materials.c.id, ondelete="CASCADE"), nullable=False),
    Column("request_id", Text, nullable=False, server_default=_EMPTY),
    Column("request_digest", Text, nullable=False, server_default=_EMPTY),
    Column("name", Text, nullable=False),
    Column("live_material_name", Text, nullable=False, server_default=_EMPTY),
    Column("span_start_ms", BigInteger, nullable=False, server_default=_ZERO),
    Column("span_end_ms", BigInteger, nullable=False, server_default=_ZERO),
    Column("prompt", Text, nullable=False, server_default=_EMPTY),
    Column("keywords", Text, nullable=False, server_default=_EMPTY),
    Column("mode", Text, nullable=False, server_default=text("'ai_slice'")),
    # empty unless the mode makes a draft
    Column("draft_format", Text, nullable=False, server_default=_EMPTY),
    Column("draft_root", Text, nullable=False, server_default=_EMPTY),
    Column("cut_mode", Text, nullable=False, server_default=text("'exact'")),
    Column("status", Text, nullable=False),
    Column("slice_task_id", Uuid, nullable=False),
    Column("seen_task_version", BigInteger, nullable=False, server_default=_ZERO),
    Column("error_reason", Text, nullable=False, server_default=_EMPTY),
    Column("error_message", Text, nullable=False, server_default=_EMPTY),
    Column("clips_source", Text, nullable=False, server_default=_EMPTY),
    _trace(),
    _created(),
    _updated(),
    Column("completed_at", DateTime(timezone=True)),
    Index("video_projects_material", "live_material_id"),
    # the follower's polls
    Index("video_projects_active", "id", postgresql_where=text("status IN ('pending', 'processing')")),
    Index("video_projects_failed", "updated_at", postgresql_where=text("status = 'failed'")),
    Index("video_projects_failed_task", "slice_task_id", postgresql_where=text("status = 'failed'")),
    Index("video_projects_request_key", "request_id", unique=True, postgresql_where=text("request_id <> ''")),
    CheckConstraint(
        "status IN ('pending', 'processing', 'completed', 'failed')", name="video_projects_status"
    ),
    CheckConstraint("mode IN ('ai_slice', 'ai_slice_draft')", name="video_projects_mode"),
    CheckConstraint("cut_mode IN ('exact', 'fast')", name="video_projects_cut_mode"),
)

clips = Table(
    "clips",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("video_project_id", Uuid, ForeignKey(video_projects.c.id, ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=_EMPTY),
    Column("topics", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("start_ms", BigInteger, nullable=False),
    Column("end_ms", BigInteger, nullable=False),
    # what was chosen; start_ms is where the cut really begins
    Column("chosen_start_ms", BigInteger, nullable=False, server_default=_ZERO),
    Column("words_source", Text, nullable=False, server_default=_EMPTY),
    Column("media_key", Text, nullable=False),
    # empty for sound without picture
    Column("thumbnail_key", Text, nullable=False, server_default=_EMPTY),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha1", Text, nullable=False, server_default=_EMPTY),
    Column("width", Integer, nullable=False, server_default=_ZERO),
    Column("height", Integer, nullable=False, server_default=_ZERO),
    Column("duration_ms", BigInteger, nullable=False, server_default=_ZERO),
    _created(),
    UniqueConstraint("video_project_id", "position", name="clips_position_key"),
    CheckConstraint("start_ms >= 0 AND end_ms > start_ms", name="clips_span"),
)

# What is to be removed from the object store once the rows that referred to it are gone. A prefix ends with
# '/'.
doomed_objects = Table(
    "doomed_objects",
    metadata,
    Column("key", Text, primary_key=True),
    Column("passes", SmallInteger, nullable=False, server_default=_ZERO),
    Column("not_before", DateTime(timezone=True), nullable=False, server_default=_NOW),
    _created(),
)

# One row for each run, so that the clean-up of debug records knows what it may remove.
debug_runs = Table(
    "debug_runs",
    metadata,
    Column("material_id", Uuid, ForeignKey(live_materials.c.id, ondelete="CASCADE"), primary_key=True),
    Column("asr_version", BigInteger, primary_key=True),
    Column("outcome", Text, nullable=False, server_default=text("'running'")),
    Column("pinned", Boolean, nullable=False, server_default=text("false")),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=_NOW),
    Column("ended_at", DateTime(timezone=True)),
    Index("debug_runs_newest", "started_at"),
    CheckConstraint("outcome IN ('running', 'completed', 'failed')", name="debug_runs_outcome"),
)

outbox = outbox_table(metadata)
