"""Captions as SubRip text."""

from __future__ import annotations

from collections.abc import Iterable

from services.asr.slicing.drafts.timeline import Caption, Timeline


def write(timeline: Timeline, captions: Iterable[Caption]) -> str:
    """Write captions on the timeline's clock; empty text when there are none."""
    return "".join(
        f"{number}\n{_clock(timeline.milliseconds(caption.start))} --> "
        f"{_clock(timeline.milliseconds(caption.end))}\n{_line(caption.text)}\n\n"
        for number, caption in enumerate(captions, 1)
    )


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d},{rest:03d}"


def _line(text: str) -> str:
    # an arrow would begin another cue
    return text.replace("-->", "→")
