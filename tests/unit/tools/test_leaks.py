"""Secrets in files are found, ours and others', and never printed."""

import secrets
import subprocess
from pathlib import Path

import pytest

from tools import leaks
from tools.leaks import Leak, unknown


def test_no_file_of_this_tree_has_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert (leaks.main(), capsys.readouterr().out) == (0, "")


def test_each_kind_is_found_where_it_is(tmp_path: Path) -> None:
    # made here, so that none stands in this file
    written = {
        "token.txt": f"ft_{secrets.token_urlsafe(32)}\n",
        "spider.env": f"FRONTROW_SPIDER_SECRET={secrets.token_urlsafe(32)}\n",
        "deployment.env": f"\nFRONTROW_INGEST_SEALING_KEY={secrets.token_hex(32)}\n",
        "settings.py": f'URL = "postgresql://frontrow:{secrets.token_urlsafe(18)}@db.internal/frontrow"\n',
        "key.pem": subprocess.run(
            ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            capture_output=True, text=True, check=True,
        ).stdout,
    }  # fmt: skip
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "innocent.md").write_text(
        "FRONTROW_INGEST_SEALING_KEY=change-me, postgresql://u:secret@h/d\n"
    )
    found = leaks.leaks([*written, "innocent.md"], tmp_path)
    assert {leak.path: leak.line for leak in found} == dict.fromkeys(written, 1) | {"deployment.env": 2}
    told = "\n".join(unknown(found, []))
    assert len(told.splitlines()) == len(written)
    assert not [text for text in written.values() if text.strip().rpartition("=")[2] in told]


def test_what_is_listed_is_no_finding_and_what_is_gone_must_be_taken_off_the_list() -> None:
    found = [Leak("a.py", 3, "some-rule", "00ff")]
    assert unknown(found, [{"path": "a.py", "sha256": "00ff", "why": "an example"}]) == []
    assert unknown(found, [{"path": "b.py", "sha256": "00ff", "why": "an example"}])[0].startswith("a.py:3: ")
    assert unknown([], [{"path": "a.py", "sha256": "00ff", "why": "an example"}]) == [
        "tools/leaks.toml: a.py has no 00ff any more"
    ]
