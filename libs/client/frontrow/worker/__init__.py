"""Run tasks of the queue: give a worker its types, a concurrency and an async handler.

    worker = Worker(target="127.0.0.1:7104", types=["asr"], handler=transcribe, concurrency=2)
    await worker.start()
    ...
    await worker.stop()

The worker claims, beats, reports progress, finishes and gives back; the handler only does the work. Needs
grpcio and protobuf alone.
"""

from frontrow.worker.dial import Dial
from frontrow.worker.execute import Handler
from frontrow.worker.outcomes import Completed, Failed, Infrastructure, Outcome, Released, TaskFailed
from frontrow.worker.run import Run
from frontrow.worker.worker import Worker

__all__ = [
    "Completed",
    "Dial",
    "Failed",
    "Handler",
    "Infrastructure",
    "Outcome",
    "Released",
    "Run",
    "TaskFailed",
    "Worker",
]
