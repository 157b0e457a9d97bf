"""What a server keeps for life takes no part in collections."""

import subprocess
import sys

_PROGRAM = """
import gc
from libs.common import garbage
garbage.spare_what_is_there()
print(gc.get_freeze_count() > 1000, gc.get_threshold()[0] == garbage.NEW_OBJECTS, gc.isenabled())
"""


def test_what_exists_is_frozen_and_collections_go_on():
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env={"PYTHONPATH": "."}, capture_output=True, timeout=60, check=True
    )
    assert done.stdout.decode().split() == ["True"] * 3
