"""Run the ingest schema's revisions."""

from libs.common.migrate import run_env
from services.ingest.models import SCHEMA, metadata

run_env(metadata, SCHEMA)
