"""Say which environment variable is wrong, and how, instead of which field of which class."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_settings import BaseSettings


def explain(error: ValidationError) -> str:
    """Return one line for each wrong setting: its variable and what is wrong.

    No value is told: it may be a secret. A rule about several settings names them itself.
    """
    prefix = _prefix(error.title)
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        variable = f"{prefix}{problem['loc'][0]}: ".upper() if problem["loc"] else ""
        lines.append(f"  {variable}{_told(problem['msg'])}")
    return "\n".join(lines)


def _told(message: str) -> str:
    return "must be set" if message == "Field required" else message.removeprefix("Value error, ")


def _prefix(class_name: str) -> str:
    """Return the prefix of the settings class that pydantic names in an error."""
    known = {settings.__name__: settings.model_config for settings in _classes(BaseSettings)}
    return str(known.get(class_name, {}).get("env_prefix", ""))


def _classes(base: type[BaseSettings]) -> Iterator[type[BaseSettings]]:
    for settings in base.__subclasses__():
        yield settings
        yield from _classes(settings)
