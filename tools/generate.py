"""Generate the Python stubs of every proto into libs/client.

`python -m tools.generate` writes them; `--check` writes them to a temporary folder instead and fails,
naming the files, when the committed ones differ.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
THIRD_PARTY = ROOT / "third_party" / "protos"
CLIENT = ROOT / "libs" / "client"
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def compile_protos(out: Path) -> None:
    """Compile all protos below `protos/` and `third_party/protos/` into `out`.

    Raises:
        RuntimeError: protoc refused a file; its own message went to stderr.
    """
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    ours = sorted(str(p.relative_to(PROTOS)) for p in PROTOS.rglob("*.proto"))
    theirs = sorted(str(p.relative_to(THIRD_PARTY)) for p in THIRD_PARTY.rglob("*.proto"))
    scripts = Path(sys.executable).parent
    includes = [f"-I{PROTOS}", f"-I{THIRD_PARTY}", f"-I{well_known}"]
    includes += [f"--plugin={p}={scripts / p}" for p in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    messages = [f"--python_out={out}", f"--mypy_out=readable_stubs,quiet:{out}"]
    services = [f"--grpc_python_out={out}", f"--mypy_grpc_out=readable_stubs,quiet:{out}"]
    for arguments in (messages + theirs, messages + services + ours):
        if protoc.main(["protoc", *includes, *arguments]) != 0:
            raise RuntimeError("protoc failed, see above")


def generated_files(root: Path) -> set[Path]:
    """Return the generated files below `root`, relative to it."""
    return {p.relative_to(root) for p in root.rglob("*_pb2*") if p.name.endswith(SUFFIXES)}


def differences(fresh: Path) -> list[str]:
    """Return the generated files that are missing, stale or left over in libs/client."""
    wanted, present = generated_files(fresh), generated_files(CLIENT)
    changed = {p for p in wanted & present if not filecmp.cmp(fresh / p, CLIENT / p, shallow=False)}
    return sorted(str(p) for p in (wanted ^ present) | changed)


def main() -> int:
    """Run the generator; return the process's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        compile_protos(fresh)
        stale = differences(fresh)
        if check and stale:
            print("generated code differs from the protos, run `make protos`:", *stale, sep="\n  ")
            return 1
        if not check:
            for path in stale:
                if (fresh / path).exists():
                    (CLIENT / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(fresh / path, CLIENT / path)
                else:
                    (CLIENT / path).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
