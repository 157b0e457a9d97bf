"""Text as a recogniser mishears it: characters of the same sound, others left out or plainly wrong."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from pypinyin import lazy_pinyin

_SEED = 11
# Of what goes wrong: most is written with other characters, some isn't heard, the rest is something else.
_SAME_SOUND, _DROPPED = 0.6, 0.8


def misheard(texts: Sequence[str], share: float) -> list[str]:
    """Return the texts with that share of their Chinese characters wrong; the same each time."""
    source = random.Random(_SEED)
    common = sorted({letter for text in texts for letter in text if "\u4e00" <= letter <= "\u9fff"})
    kin = _kin()
    made = []
    for text in texts:
        letters = []
        for letter in text:
            if not "\u4e00" <= letter <= "\u9fff" or source.random() >= share:
                letters.append(letter)
                continue
            kind = source.random()
            if kind < _SAME_SOUND:
                letters.append(source.choice(kin.get(lazy_pinyin(letter)[0], [letter])))
            elif kind >= _DROPPED:
                letters.append(source.choice(common))
        made.append("".join(letters) or text)
    return made


def _kin() -> dict[str, list[str]]:
    """Return the characters of everyday writing (GB 2312's first level) by their sound."""
    kin: dict[str, list[str]] = defaultdict(list)
    for row in range(0xB0, 0xD8):
        for cell in range(0xA1, 0xFF if row < 0xD7 else 0xFA):
            letter = bytes((row, cell)).decode("gb2312")
            kin[lazy_pinyin(letter)[0]].append(letter)
    return kin
