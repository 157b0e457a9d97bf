"""Alembic's entry for the asr schema."""

from libs.common.migrate import run_env
from services.asr.models import SCHEMA
from services.asr.models_draft import editing_drafts

run_env(editing_drafts.metadata, SCHEMA)
