"""What we depend on: pinned by hash, from any mirror, under licences that let us ship."""

from email.message import Message

import pytest

from tools import dependencies
from tools.dependencies import is_allowed, licence_findings, licence_of, lock_findings

_HASH = f"    --hash=sha256:{'0' * 64}\n"


def test_the_locks_and_what_is_installed_keep_the_rules() -> None:
    assert dependencies.main() == 0


@pytest.mark.parametrize(
    ("lock", "line"),
    [
        (f"one==1.0 \\\n{_HASH}two==2.0\n", 3),
        (f"one>=1.0 \\\n{_HASH}", 1),
        ("one==1.0 \\\n    --hash=md5:00\n", 1),
        (f"--index-url https://mirror.example/simple\none==1.0 \\\n{_HASH}", 1),
        (f"one==1.0 \\\n{_HASH}two @ git+https://git.example/two \\\n{_HASH}", 3),
    ],
)
def test_a_line_that_could_bring_something_else_is_named(lock: str, line: int) -> None:
    assert any(finding.startswith(f"a.lock:{line}: ") for finding in lock_findings("a.lock", lock))


def test_markers_and_several_versions_of_one_package_are_no_finding() -> None:
    lock = f"one==1.0 ; python_full_version < '3.12' \\\n{_HASH}one==2.0 ; os_name == 'nt' \\\n{_HASH}{_HASH}"
    assert [*lock_findings("a.lock", lock)] == []


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("GPL-2.0-or-later", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("(Apache-2.0 OR BSD-2-Clause)", True),
        ("AGPL-3.0", False),
        ("", False),
    ],
)
def test_one_of_the_choices_must_be_allowed_whole(licence: str, allowed: bool) -> None:
    assert is_allowed(licence) is allowed


def test_a_package_under_another_licence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "ALLOWED", dependencies.ALLOWED - {"MIT"})
    assert [*licence_findings("sqlalchemy==2.1 \\\n")] == [
        "sqlalchemy: licence 'MIT' isn't among those of tools/dependencies.py"
    ]


def test_older_packages_say_their_licence_by_classifiers_or_in_words() -> None:
    said = Message()
    said["License"] = "GPL-2.0-or-later"
    assert licence_of(said) == "GPL-2.0-or-later"
    said["Classifier"] = "License :: OSI Approved"
    assert licence_of(said) == "GPL-2.0-or-later"
    said["Classifier"] = "License :: OSI Approved :: MIT License"
    assert licence_of(said) == "MIT License"
    said["License-Expression"] = "0BSD"
    assert licence_of(said) == "0BSD"
