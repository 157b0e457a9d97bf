"""Pages say what is so: commands, options, targets, settings, files are there; two READMEs say the same."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import AliasChoices
from pydantic_settings import BaseSettings

import libs.common
import services
from tests.unit.docs.commands import PAGES, ROOT, blocks, commands, problem, targets

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")
_VARIABLE = re.compile(r"\bFRONTROW_[A-Z][A-Z0-9_]*[A-Z0-9]\b")
_FILE = re.compile(r"`((?:libs|services|tests|tools|cli|demo|samples|deploy|protos)/[\w./-]+)`")
# Read by the command line, by scripts and by tests, not by a class of settings.
_OTHERS = {
    "FRONTROW_ACTOR",
    "FRONTROW_DEPLOYMENT",
    "FRONTROW_SPIDER_KEY_ID",
    "FRONTROW_SPIDER_SECRET",
    "FRONTROW_TEST_DATABASE_URL",
}


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_link_leads_to_a_file_and_every_named_file_is_there(page: Path) -> None:
    text = _text(page)
    wanted = {page.parent / found[1] for found in _LINK.finditer(text)}
    wanted |= {ROOT / name for name in _FILE.findall(text) if "<" not in name}
    assert {_id(path) for path in wanted if not path.exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_command_has_what_the_page_says(page: Path) -> None:
    wrong = {" ".join(words): said for words in commands(_text(page)) if (said := problem(words))}
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_target_of_make_is_one(page: Path) -> None:
    assert set(targets(_text(page))) == set()


def _settings() -> Iterator[str]:
    for package in (libs.common, services):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("settings"):
                importlib.import_module(module.name)
    waiting = [*BaseSettings.__subclasses__()]
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        prefix = str(model.model_config.get("env_prefix", ""))
        for name, field in model.model_fields.items():
            yield f"{prefix}{name}".upper()
            if isinstance(field.validation_alias, AliasChoices):
                yield from (str(one).upper() for one in field.validation_alias.choices)
            elif field.validation_alias is not None:
                yield str(field.validation_alias).upper()


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_variable_is_one_that_a_setting_reads(page: Path) -> None:
    known = {*_settings(), *_OTHERS}
    unknown = {name for name in _VARIABLE.findall(_text(page)) if name not in known}
    # `FRONTROW_TLS_CERT`, `_KEY`: a common beginning is said once
    assert {name for name in unknown if not any(one.startswith(f"{name}_") for one in known)} == set()


def test_a_wrong_command_is_found() -> None:
    wrong = [
        "frontrow tokens ad ann",
        "frontrow tasks --colour",
        "frontrow queues pause/halt asr",
        'eval "$(frontrow spiders ad me)"',
    ]
    text = "```sh\n" + "\n".join(wrong) + "\n```\nand `frontrow explian URL`\n"
    assert [problem(words) for words in commands(text)] == [
        "no command ad",
        "no option --colour",
        "no command halt",
        "no command ad",
        "no command explian",
    ]


_ENGLISH, _CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"


def test_both_readmes_have_the_same_parts() -> None:
    def levels(page: Path) -> list[int]:
        return [len(found[1]) for found in re.finditer(r"^(#+) ", _without_code(page), re.MULTILINE)]

    assert levels(_CHINESE) == levels(_ENGLISH)


def test_both_readmes_show_the_same_code() -> None:
    """Comments aside, which each says in its language."""

    def code(page: Path) -> list[tuple[str, str]]:
        return [
            (language, re.sub(r"\s*(?<!\S)# .*", "", content)) for language, content in blocks(_text(page))
        ]

    assert code(_CHINESE) == code(_ENGLISH)


def test_both_readmes_name_the_same_things_in_the_same_order() -> None:
    """Commands, settings, files and links stand in code spans and are never translated."""

    def spans(page: Path) -> list[str]:
        return sorted(re.findall(r"`[^`\n]+`", _without_code(page)))

    def links(page: Path) -> list[str]:
        return sorted(found[1] for found in _LINK.finditer(_text(page)) if not found[1].startswith("README"))

    assert spans(_CHINESE) == spans(_ENGLISH)
    assert links(_CHINESE) == links(_ENGLISH)


def test_both_readmes_have_the_same_rows_of_tables() -> None:
    def first_cells(page: Path) -> list[str]:
        rows = re.findall(r"^\| ((?:\\\||[^|])*) \|", _without_code(page), re.MULTILINE)
        return [row for row in rows if row.startswith("`")]

    assert first_cells(_CHINESE) == first_cells(_ENGLISH)


def test_the_readmes_name_each_other() -> None:
    assert "(README.zh-CN.md)" in _text(_ENGLISH)
    assert "(README.md)" in _text(_CHINESE)


def _without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", _text(page), flags=re.MULTILINE | re.DOTALL)
