"""Asking a language model about the lines of a transcript: indices are asked for, never times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from services.asr.worker.llm_errors import AnswerTooLong, LlmFailed, WrongAnswer

Json = dict[str, Any]
T = TypeVar("T")

_WINDOW_MS = 60 * 60_000
_WINDOW_CHARACTERS = 16_000
_ASKS = 2


class Model(Protocol):
    """A chat model that answers in JSON; see `services.asr.worker.llm.ChatModel`."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    async def ask(self, system: str, user: str, schema: Json) -> Json:
        """Return the JSON object of the answer. Raises: AnswerTooLong, LlmFailed."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Line(Protocol):
    """What was said without a long gap."""

    @property
    def text(self) -> str:
        """The words."""
        ...

    @property
    def start_ms(self) -> int:
        """Where it begins, on the recording's clock."""
        ...

    @property
    def end_ms(self) -> int:
        """Where it ends."""
        ...


@dataclass(frozen=True)
class Question(Generic[T]):
    """A question about lines, which the model sees numbered from 0, behind `before`.

    `read` takes an answer and the number of lines, and gives what was found, each with its first line's
    number; it raises WrongAnswer with words for the model.
    """

    system: str
    schema: Json
    read: Callable[[Json, int], Iterable[tuple[int, T]]]
    before: str = ""

    async def ask(self, model: Model, lines: Sequence[Line], begin: int, end: int) -> list[tuple[int, T]]:
        """Ask about `lines[begin:end]`; returns what was found with the positions of first lines in `lines`.

        An answer that can't be right is shown to the model once; one that is too long is asked for in halves.

        Raises:
            LlmFailed: there was no usable answer.
        """
        shown = "\n".join(f"{number}\t{line.text}" for number, line in enumerate(lines[begin:end]))
        complaint = ""
        for _ in range(_ASKS):
            try:
                answer = await model.ask(self.system, f"{self.before}{shown}{complaint}", self.schema)
                return [(begin + first, found) for first, found in self.read(answer, end - begin)]
            except WrongAnswer as error:
                complaint = f"\n\nYour last answer was wrong: {error}. Answer again."
            except AnswerTooLong as error:
                if end - begin < 2:
                    raise LlmFailed(str(error)) from error
                middle = (begin + end) // 2
                found = await self.ask(model, lines, begin, middle)
                return found + await self.ask(model, lines, middle, end)
        raise LlmFailed(f"the model's answers stay wrong: {complaint.strip()}")


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Give what is inside so long, all calls and repeats of one question together.

    A model that takes longer would have its run taken for stuck, and be asked all of it again by the next.

    Raises:
        LlmFailed: it took longer.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise LlmFailed(f"the model gave no usable answer in {seconds:g} seconds") from error


def window_end(lines: Sequence[Line], begin: int) -> int:
    """Return the position after the window that begins at `begin`: an hour or 16,000 characters, at most.

    At least one line is in it.
    """
    characters = 0
    for position in range(begin, len(lines)):
        characters += len(lines[position].text)
        long = lines[position].end_ms - lines[begin].start_ms > _WINDOW_MS
        if position > begin and (long or characters > _WINDOW_CHARACTERS):
            return position
    return len(lines)


def line_number(item: object, name: str, count: int) -> int:
    """Return the number of a line that an answer's item names. Raises WrongAnswer."""
    value = item.get(name) if isinstance(item, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise WrongAnswer(f"every item needs a {name} line between 0 and {count - 1}, not {value!r}")
    return value
