"""Run a function in a process of its own, forked from one that has imported the libraries already.

A program that starts from nothing spends a second or two on imports: too much for a hundred of them.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBRARIES = [
    "click",
    "rich.live",
    "rich.progress",
    "rich.table",
    "frontrow.client",
    "frontrow.asr.v1.live_material_service_pb2_grpc",
    "frontrow.asr.v1.video_project_service_pb2_grpc",
    "frontrow.review.v1.draft_service_pb2_grpc",
    "frontrow.review.v1.key_service_pb2_grpc",
    "frontrow.review.v1.media_service_pb2_grpc",
    "frontrow.task.v1.task_service_pb2_grpc",
    "libs.common.client",
    "services.state",
    "services.asr.worker.mount",
]


def context() -> ForkServerContext:
    """Return what processes, and events they share, are made with."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(_LIBRARIES)
    return made


def start(target: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Start `target(*arguments)` in a process that dies with the tests, however they end."""
    process = context().Process(target=_run, args=(target, arguments))
    process.start()
    return process


def _run(target: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    if sys.platform == "linux":  # the server it was forked from ends when the tests do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    target(*arguments)
