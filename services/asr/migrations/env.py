"""Alembic's entry for the asr schema."""

from libs.common.migrate import run_env
from services.asr.models import SCHEMA, metadata

run_env(metadata, SCHEMA)
