"""Find every stable reason that the code gives, by reading it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from services.asr.worker import failures

ROOT = Path(__file__).resolve().parents[3]
_REASON = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
# Calls one of whose arguments is a reason.
_TAKING = re.compile(r"Problem|Refusal|NothingChosen|_fail|_give_up|_wait_for_better|_try_again")
# Functions that return one.
_NAMING = {"reason_of", "failure_of"}
# Written by SQL alone.
_OF_SQL = {"ABANDONED", "REPLY_LOST", "STALE"}


def given() -> set[str]:
    """Return every reason that a server or a worker gives."""
    found = set(_OF_SQL)
    for folder in ("services", "libs/common"):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {text for node in ast.walk(tree) for text in _of(node)}
    # a worker's failure without a reason of its own is named after its class
    classes = set(_with_subclasses({*failures._INFRASTRUCTURE, failures.RunTimeout}))
    return found | {getattr(kind, "reason", "") or failures._upper_snake(kind.__name__) for kind in classes}


def _with_subclasses(kinds: Iterable[type]) -> Iterator[type]:
    """Yield these classes, and ours that are kinds of them."""
    for kind in kinds:
        yield kind
        yield from _with_subclasses(
            sub for sub in kind.__subclasses__() if sub.__module__.startswith("services.")
        )


def _of(node: ast.AST) -> Iterator[str]:
    """Yield the reasons that one piece of code names."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        if node.value is not None and any(name.lower().endswith("reason") for name in names):
            yield from _texts(node.value)
    elif isinstance(node, ast.keyword) and (node.arg or "").endswith("reason"):
        yield from _texts(node.value)
    elif isinstance(node, ast.Call) and _TAKING.search(ast.unparse(node.func).rpartition(".")[2]):
        yield from (text for argument in node.args for text in _texts(argument))
    elif isinstance(node, ast.FunctionDef) and node.name in _NAMING:
        yield from (text for part in ast.walk(node) if isinstance(part, ast.Return) for text in _texts(part))
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "reason":
                yield from _texts(value)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts below a node that look like a reason."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _REASON.fullmatch(part.value):
            yield part.value
