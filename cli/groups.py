"""Groups of commands that also list or show without a word for it."""

import re
from collections.abc import Container
from typing import Any

import click

_ID = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]*")


class ShowingGroup(click.Group):
    """A group that takes an id for its `show`: `frontrow jobs 0198…` is `frontrow jobs show 0198…`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the group's `show` for an id, else what click finds; a typo stays click's to explain."""
        if args[0] not in self.commands and _ID.fullmatch(args[0]):
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)


class KindGroup(click.Group):
    """A group in which `frontrow drafts street` lists and `frontrow drafts street 7` shows."""

    def __init__(self, *arguments: Any, kinds: Container[str], **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._kinds = kinds

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return `list` or `show` for a kind, else what click finds."""
        if args[0] in self._kinds:
            name = "show" if len(args) > 1 and args[1].isdigit() else "list"
            return name, self.commands[name], args
        return super().resolve_command(ctx, args)
