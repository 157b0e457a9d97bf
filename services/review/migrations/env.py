"""Alembic's entry for the review schema."""

from libs.common.migrate import run_env
from services.review import models, models_audit
from services.review.models_media import SCHEMA

# importing both is what fills the metadata
assert models.RUNWAY.drafts.metadata is models_audit.audit_log.metadata
run_env(models_audit.audit_log.metadata, SCHEMA)
