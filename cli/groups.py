"""A group of commands that also shows one thing by its id."""

import re

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
