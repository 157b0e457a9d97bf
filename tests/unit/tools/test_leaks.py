"""Secrets in files are found, ours and others', and never printed."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from libs.common.authority import key_pem, new_authority
from tools import leaks
from tools.leaks import Leak, unknown


def test_each_kind_is_found_where_it_is(tmp_path: Path) -> None:
    # made here, so that none stands in this file
    written = {
        "token.txt": f"ft_{secrets.token_urlsafe(32)}\n",
        "spider.env": f"FRONTROW_SPIDER_SECRET={secrets.token_urlsafe(32)}\n",
        "deployment.env": f"\nFRONTROW_INGEST_SEALING_KEY={secrets.token_hex(32)}\n",
        "settings.py": f'URL = "postgresql://frontrow:{secrets.token_urlsafe(18)}@db.internal/frontrow"\n',
        "key.pem": key_pem(new_authority(datetime.now(UTC)).key).decode(),
    }
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
