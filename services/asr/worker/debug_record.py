"""Keep what each stage of a run did, for the day when somebody asks why (domain.md 2.6)."""

import asyncio
import json
import traceback
from typing import Any

import structlog

from libs.common.objects import ObjectStore
from libs.common.redaction import redacted_value

log = structlog.get_logger(__name__)


class DebugRecord:
    """The stages of one run, as JSON objects under `staging/asr/{material_id}/{asr_version}/`.

    No secret is written. A record that can't be written warns and is otherwise ignored: it must never cost a
    transcript.
    """

    def __init__(self, store: ObjectStore, material_id: str, asr_version: int, *, enabled: bool) -> None:
        self._store = store
        self._prefix = f"staging/asr/{material_id}/{asr_version}"
        self._enabled = enabled

    async def write(self, stage: str, content: dict[str, Any]) -> None:
        """Write one stage, such as `001_prepare`; a later write of the same stage replaces it."""
        if not self._enabled:
            return
        try:
            # a long recording has a hundred thousand texts
            data = await asyncio.to_thread(_encoded, content)
            await self._store.put_bytes(f"{self._prefix}/{stage}.json", data)
        except Exception as error:  # noqa: BLE001 - see the class: a record never costs a run
            log.warning("asr.debug_record_failed", stage=stage, error=repr(error)[:500])

    async def write_failure(
        self, error: BaseException, *, reason: str, progress: int, retryable: bool
    ) -> None:
        """Write how the run failed."""
        content = {
            "reason": reason,
            "message": str(error),
            "progress": progress,
            "retryable": retryable,
            "trace": traceback.format_exception(error),
        }
        await self.write("999_fail", content)


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(redacted_value(content), ensure_ascii=False).encode("utf-8", "replace")
