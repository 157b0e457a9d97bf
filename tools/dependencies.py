"""Hold what we depend on to our rules, without a network: `python -m tools.dependencies`.

Every lock pins each package with hashes and names no address; what a deployment installs has a licence under
which an Apache-2.0 product may ship. Whether an advisory is about one of them a service knows: `make audit`.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent

# SPDX identifiers, and below them what packages say that are older than those.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "MPL-2.0",
    "PSF-2.0",
    "Zlib",
    "3-Clause BSD License",
    "Apache License 2.0",
    "Apache Software License",
    "BSD License",
    "MIT License",
    "Python Software Foundation License",
}
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")
_ADDRESS = re.compile(r"://| @ |^-", re.MULTILINE)


def lock_findings(name: str, text: str) -> Iterator[str]:
    """Yield what is wrong with a lock."""
    if found := _ADDRESS.search(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{name}:{line}: names an address or an option: packages alone, so that every mirror serves"
    starts = [*re.finditer(r"^(?=[^\s#])", text, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        entry = text[start.start() : end.start() if end else len(text)]
        line = text.count("\n", 0, start.start()) + 1
        if not _PIN.match(entry) or not _HASH.search(entry):
            yield f"{name}:{line}: {entry.split(maxsplit=1)[0]} must be pinned with == and have a sha256 hash"


def licence_of(metadata: Message) -> str:
    """Return how a package says its licence: SPDX, else its classifiers, else its own words."""
    expression: str | None = metadata.get("License-Expression")
    if expression:
        return expression
    classifiers = [
        said.rpartition(" :: ")[2]
        for said in metadata.get_all("Classifier", [])
        if said.startswith("License :: ") and not said.endswith(":: OSI Approved")
    ]
    return " AND ".join(classifiers) or str(metadata.get("License", "")).strip()


def is_allowed(licence: str) -> bool:
    """Tell whether a licence expression leaves us one that is allowed; ` OR ` is ours to choose."""
    choices = re.split(r"\s+OR\s+", licence.replace("(", "").replace(")", ""))
    return any(all(part in ALLOWED for part in re.split(r"\s+AND\s+", choice)) for choice in choices)


def licence_findings(lock: str) -> Iterator[str]:
    """Yield the packages of a lock, as far as they are installed here, that may not ship with us."""
    for name in sorted({found[1] for found in _PIN.finditer(lock)}):
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        licence = licence_of(cast(Message, metadata))
        if not is_allowed(licence):
            yield f"{name}: licence {licence or 'unknown'!r} isn't among those of tools/dependencies.py"


def main() -> int:
    """Check all locks; return the process's exit code."""
    locks = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("requirements/*.lock")}
    found = [finding for name, text in locks.items() for finding in lock_findings(name, text)]
    found += licence_findings(locks["runtime.lock"])
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
