"""Timelines of drafts made for tests, at any frame rate."""

from collections.abc import Sequence
from fractions import Fraction

from services.asr.slicing.drafts.names import clip_name
from services.asr.slicing.drafts.timeline import Material, Timeline, build
from services.asr.slicing.selection import Said

RATES = (Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001), Fraction(30), Fraction(60))
# odd lengths in frames, so that no rate has all of them on whole milliseconds or microseconds
FRAMES = (271, 97, 1003, 44)
TITLES = ("三层钢不粘锅", '"利率" & <债券>', "-rf 100%20", "🎬👗")


def material(
    number: int,
    *,
    picture: Fraction,
    sound: Fraction | None = None,
    fps: Fraction = Fraction(25),
    title: str = "片段",
    length_ms: int | None = None,
    channels: int = 2,
) -> Material:
    start = number * 200_000
    length = round((picture or sound or 0) * 1000) if length_ms is None else length_ms
    return Material(
        clip_id=f"00000000-0000-4000-8000-00000000000{number}",
        title=title,
        file_name=clip_name(number + 1, title),
        start_ms=start,
        end_ms=start + length,
        picture=picture,
        sound=picture if sound is None else sound,
        fps=fps,
        width=416 if picture else 0,
        height=234 if picture else 0,
        channels=channels,
    )


def words_in(materials: Sequence[Material]) -> list[Said]:
    """Speak every 1,237 ms of each clip, the last words past its end."""
    said: list[Said] = []
    for clip in materials:
        for at in range(clip.start_ms + 111, clip.end_ms, 1237):
            said.append(Said(len(said), at, at + 1100, f"第{len(said)}句 <b>&</b>"))
    return said


def timeline(rate: Fraction) -> Timeline:
    materials = [
        material(i, picture=frames / rate, fps=rate, title=TITLES[i]) for i, frames in enumerate(FRAMES)
    ]
    return build("春季 直播", materials, words_in(materials))
