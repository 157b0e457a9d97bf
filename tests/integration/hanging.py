"""A worker that stops dead at a place, to be killed there."""

from __future__ import annotations

import asyncio
import importlib
import os
import runpy
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from typing import Any

from libs.common.testing import eventually
from tests import forked

_LONGEST_SECONDS = 240.0


async def hung(module: str, place: str, environment: Mapping[str, str]) -> BaseProcess:
    """Start a program's module with settings in the environment, and wait until it hangs at the place.

    `place` is `module:Class.method:count` or `module:function:count`: it hangs once that has answered so many
    times.
    """
    hanging = forked.context().Event()
    process = forked.start(_run_until_killed, module, place, dict(environment), hanging)
    await eventually(lambda: hanging.is_set() or not process.is_alive(), _LONGEST_SECONDS)
    assert process.is_alive()
    return process


async def kill(process: BaseProcess) -> None:
    """Kill with SIGKILL."""
    process.kill()
    await asyncio.to_thread(process.join)


def _run_until_killed(program: str, place: str, environment: dict[str, str], hanging: Event) -> None:
    os.environ.update(environment, FRONTROW_LOG_LEVEL="ERROR")
    module, name, count = place.split(":")
    *classes, method = name.split(".")
    owner = importlib.import_module(module)
    for class_name in classes:
        owner = getattr(owner, class_name)
    original, left = getattr(owner, method), int(count)

    async def then_hang(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        answer = await original(*arguments, **named)
        left -= 1
        if left == 0:
            hanging.set()
            await asyncio.Event().wait()
        return answer

    setattr(owner, method, then_hang)
    runpy.run_module(program, run_name="__main__")
