"""Alembic's entry for the review schema."""

from libs.common.migrate import run_env
from services.review import models
from services.review.models_media import SCHEMA

run_env(models.RUNWAY.drafts.metadata, SCHEMA)
