"""Find the commands that a page names, and what is wrong with them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from cli.main import main as frontrow

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FRONTROW = re.compile(
    r"(?:^|[\s(\"])(?:frontrow|deploy/run cli|docker compose run --rm (?:-T )?cli)\s+([^|#;)\n&]*)"
)
_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def blocks(text: str) -> list[tuple[str, str]]:
    """Return a page's blocks of code: language and content."""
    return [(found[1], found[2]) for found in _BLOCK.finditer(text)]


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each `frontrow …` in a page's blocks and spans, without the name itself."""
    code = [content.replace("\\\n", " ") for language, content in blocks(text) if language in ("", "sh")]
    code += [span.replace("\\|", "/") for span in _SPAN.findall(_BLOCK.sub("", text))]
    for part in code:
        for found in _FRONTROW.finditer(part):
            words = shlex.split(found[1].replace("…", "").replace("'", "").replace('"', ""))
            if words:
                yield words


def problem(words: list[str], group: click.Command = frontrow) -> str:
    """Return what is wrong with a command, empty for nothing.

    `list/add` are two; words in capitals stand for anything.
    """
    options = _options(group)
    for place, word in enumerate(words):
        if word.startswith("-") and word != "-":
            if word.partition("=")[0] not in options:
                return f"no option {word}"
        elif isinstance(group, click.Group) and not _is_value(words, place, group) and not word.isupper():
            return next(
                filter(None, (_deeper(group, [one, *words[place + 1 :]]) for one in word.split("/"))), ""
            )
    return ""


def _deeper(group: click.Group, words: list[str]) -> str:
    """Go on with the command that a group finds for the first word; some take an id or a kind there."""
    try:
        _, command, rest = group.resolve_command(click.Context(group), words)
    except click.UsageError:
        return f"no command {words[0]}"
    assert command is not None
    return problem(rest, command)


def _options(command: click.Command) -> dict[str, bool]:
    """Return a command's options, and whether each takes a value."""
    found = {"--help": False}
    for one in command.params:
        if isinstance(one, click.Option):
            found |= dict.fromkeys((*one.opts, *one.secondary_opts), not one.is_flag)
    return found


def _is_value(words: list[str], place: int, command: click.Command) -> bool:
    return place > 0 and _options(command).get(words[place - 1], False)


def targets(text: str) -> Iterator[str]:
    """Yield the targets of `make` that a page names and that there aren't."""
    code = [content for language, content in blocks(text) if language in ("", "sh")] + _SPAN.findall(text)
    for part in code:
        for found in re.finditer(r"(?:^|\s)make ((?:[a-z-]+ ?)+)", part):
            yield from (name for name in found[1].split() if name not in _TARGETS)
