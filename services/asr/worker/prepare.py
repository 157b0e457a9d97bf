"""Prepare a recording: what it is, one canonical file with a right clock, the audio that the engine hears."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from libs.common.objects import ObjectStore
from libs.common.together import together
from services.asr.media import audio, canonical, probe


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared recording; `wav` is a file of the run's own folder."""

    wav: Path
    canonical_key: str
    duration_ms: int
    width: int
    height: int
    missing_ms: int
    format: str
    copied: bool
    audio_tracks: tuple[probe.AudioTrack, ...]
    audio_order: int


async def prepare(
    store: ObjectStore,
    recording: AbstractAsyncContextManager[Path],
    canonical_key: str,
    folder: Path,
    *,
    on_share: Callable[[float], None],
) -> Prepared:
    """Make the canonical file and the audio of a recording; the canonical file is stored as well.

    `on_share` is told the share done, 0 to 1.

    Raises:
        MediaError: the recording can't be used, with its reason.
        Undecided: the recording's or the machine's trouble; it took too long, say.
        MediaInfrastructure, StoreUnavailable, ObjectMissing: trouble around it.
    """
    made_path, wav = folder / "canonical.mp4", folder / "audio.wav"
    async with recording as source:
        media = await probe.probe(source)
        made = await canonical.make(source, made_path, media, on_progress=lambda share: on_share(share * 0.5))
    async with together() as group:
        group.create_task(
            audio.extract(
                made_path,
                wav,
                duration_ms=made.media.duration_ms,
                on_progress=lambda share: on_share(0.5 + share * 0.5),
            )
        )
        # beside it: the one needs a processor, the other the disk
        group.create_task(store.put_file(canonical_key, made_path))
    made_path.unlink()
    on_share(1.0)
    return Prepared(
        wav=wav,
        canonical_key=canonical_key,
        duration_ms=made.media.duration_ms,
        width=made.media.width,
        height=made.media.height,
        missing_ms=made.missing_ms,
        format=media.format,
        copied=made.copied,
        audio_tracks=media.audio_tracks,
        audio_order=media.audio_order,
    )
