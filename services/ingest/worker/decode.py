"""Have images decoded in child processes, and put what they say into types."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from libs.common.child import ChildCrashed, ChildFailed, ChildTimeout
from libs.common.child_pool import ChildPool
from libs.common.fetch_problems import MachineTrouble
from services.ingest.worker.problems import ImageProblem
from services.ingest.worker.settings import IngestWorkerSettings

_MODULE = "services.ingest.worker.decode_child"


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A smaller picture on disk."""

    path: Path
    width: int
    height: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What an image is, as its bytes tell it."""

    extension: str
    content_type: str
    width: int
    height: int
    dhash: str
    thumbnails: tuple[Thumbnail, ...]


class Decoder:
    """A pool of decoding processes."""

    def __init__(self, settings: IngestWorkerSettings) -> None:
        self._settings = settings
        self._pool = ChildPool(_MODULE, size=settings.decoders, memory_bytes=settings.decoder_memory_bytes)

    async def decode(self, path: Path) -> Decoded:
        """Decode a file whole and make its thumbnails beside it.

        Raises:
            ImageProblem: it is no image that is taken, or its decoding took too long or broke the process.
            MachineTrouble: the file can't be read, its thumbnails not be written, or no process be started.
        """
        request = {"path": str(path), "thumbnail_widths": sorted(self._settings.thumbnail_widths)}
        try:
            answer = await self._pool.call(request, timeout_seconds=self._settings.decode_timeout_seconds)
        except ChildTimeout as error:
            raise ImageProblem("DECODE_TIMEOUT", "decoding it took too long") from error
        except (ChildCrashed, ChildFailed) as error:
            raise ImageProblem("DECODER_CRASHED", "decoding it broke the decoder") from error
        except OSError as error:
            raise MachineTrouble(f"no decoder can be started: {error.strerror}") from error
        if "trouble" in answer:
            raise MachineTrouble(f"the scratch folder failed: {answer['trouble']}")
        if "refused" in answer:
            raise ImageProblem(answer["refused"]["reason"], answer["refused"]["message"])
        thumbnails = tuple(
            Thumbnail(**{**each, "path": Path(each["path"])}) for each in answer.pop("thumbnails")
        )
        return Decoded(thumbnails=thumbnails, **answer)

    async def close(self) -> None:
        """End the processes."""
        await self._pool.close()
