"""What is in a draft's zip beside the media, for each format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from services.asr.slicing.drafts import jianying, srt
from services.asr.slicing.drafts.timeline import Timeline

CAPTIONS = "captions.srt"
MEDIA_FOLDER = "media"


@dataclass(frozen=True)
class Order:
    """What is asked for: a format, and for JianYing the folder of drafts on the editor's machine."""

    format: str
    draft_root: str = ""

    @property
    def media_folder(self) -> str:
        """The folder of the media inside the draft's own."""
        return jianying.MEDIA_FOLDER if self.format == "jianying" else MEDIA_FOLDER


def files(timeline: Timeline, order: Order, folder: str) -> dict[str, str]:
    """Return the files of a draft, path inside its folder to text; captions as SRT are in every one."""
    return {
        **_WRITERS[order.format](timeline, order, folder),
        CAPTIONS: srt.write(timeline, timeline.captions),
    }


def _otio(timeline: Timeline, order: Order, folder: str) -> dict[str, str]:
    # a tenth of a second to import, which only drafts of these two formats need
    from services.asr.slicing.drafts.otio_file import write_otio

    return {"timeline.otio": write_otio(timeline)}


def _fcp7(timeline: Timeline, order: Order, folder: str) -> dict[str, str]:
    from services.asr.slicing.drafts.fcp7_file import write_fcp7

    return {"timeline.xml": write_fcp7(timeline)}


def _srt(timeline: Timeline, order: Order, folder: str) -> dict[str, str]:
    """Captions of each clip beside it, by its name: players load them unasked."""
    return {
        f"{MEDIA_FOLDER}/{PurePosixPath(item.material.file_name).with_suffix('.srt')}": srt.write(
            timeline, timeline.captions_of(item)
        )
        for item in timeline.items
    }


def _jianying(timeline: Timeline, order: Order, folder: str) -> dict[str, str]:
    return jianying.write(timeline, folder, order.draft_root)


_WRITERS: dict[str, Callable[[Timeline, Order, str], dict[str, str]]] = {
    "otio": _otio,
    "fcp7_xml": _fcp7,
    "srt": _srt,
    "jianying": _jianying,
}
FORMATS = frozenset(_WRITERS)
