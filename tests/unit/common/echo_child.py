"""A child of a pool, for the tests: it does what the request says."""

import os
import time
from pathlib import Path

from libs.common.child_pool import Emit, Json, serve


def handle(request: Json, emit: Emit) -> Json:
    """Echo, fail, hang, crash or print."""
    match request["do"]:
        case "fail":
            raise ValueError("bad picture")
        case "open":
            Path(request["value"]).read_bytes()
        case "hang":
            time.sleep(1000)
        case "crash":
            os.abort()
        case "print":
            print("noise from a library", flush=True)
        case "environment":
            return {"value": os.environ.get(request["value"])}
        case _:
            emit({"step": 1})
            emit({"step": 2})
    return {"value": request["value"], "pid": os.getpid()}


if __name__ == "__main__":
    serve(handle)
