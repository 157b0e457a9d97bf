"""Alembic's entry for the task schema."""

from libs.common.migrate import run_env
from services.task.models import SCHEMA, metadata

run_env(metadata, SCHEMA)
