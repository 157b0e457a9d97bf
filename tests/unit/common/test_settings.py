"""The settings every process shares."""

import pytest
from pydantic import ValidationError

from libs.common import settings_error
from libs.common.settings import CommonSettings, DatabaseSettings, PeerSettings, TransportSettings


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_a_database_url_always_names_the_driver(scheme):
    settings = DatabaseSettings(url=f"{scheme}://u:p@/db?host=/tmp/pg&port=5432")
    assert settings.url == "postgresql+asyncpg://u:p@/db?host=/tmp/pg&port=5432"


@pytest.mark.parametrize("url", ["mysql://h/db", "sqlite:///x", "host=a"])
def test_another_database_is_refused(url):
    with pytest.raises(ValidationError, match="postgresql://"):
        DatabaseSettings(url=url)


def test_everything_comes_from_variables_with_one_prefix(monkeypatch):
    monkeypatch.setenv("FRONTROW_DATABASE_URL", "postgresql://h/db")
    monkeypatch.setenv("FRONTROW_DATABASE_POOL_SIZE", "7")
    monkeypatch.setenv("FRONTROW_TASK_ADDRESS", "task:7104")
    monkeypatch.setenv("FRONTROW_INSECURE_PLAINTEXT", "1")
    monkeypatch.setenv("FRONTROW_OBJECT_STORE", "s3://bucket")
    settings = CommonSettings.from_environment()
    assert settings.database.pool_size == 7
    assert settings.peers.task_address == "task:7104"
    assert settings.peers.review_address == "127.0.0.1:7102"
    assert settings.transport.insecure_plaintext is True
    assert settings.store.object_store == "s3://bucket"
    assert settings.telemetry.otlp_endpoint is None


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ("postgresql://ann:secret@h:5432/db?passfile=/p", "postgresql+asyncpg://frontrow_task@h:5432/db?passfile=/p"),
        ("postgresql://frontrow@/db?host=/tmp/pg", "postgresql+asyncpg://frontrow_task@/db?host=/tmp/pg"),
        ("postgres:///db?host=/tmp/pg", "postgresql+asyncpg://frontrow_task@/db?host=/tmp/pg"),
        ("postgresql://h1,h2/db", "postgresql+asyncpg://frontrow_task@h1,h2/db"),
    ],
)  # fmt: skip
def test_a_context_connects_as_its_own_role_where_the_settings_say_so(monkeypatch, given, own):
    assert DatabaseSettings(url=given).of("task").url == DatabaseSettings(url=given).url
    monkeypatch.setenv("FRONTROW_DATABASE_URL", given)
    monkeypatch.setenv("FRONTROW_DATABASE_ROLES", "true")
    assert CommonSettings.from_environment().of("task").database.url == own


def test_settings_never_change_once_read():
    with pytest.raises(ValidationError, match="frozen"):
        PeerSettings().task_address = "elsewhere"


def test_plaintext_is_off_unless_asked_for():
    assert TransportSettings().insecure_plaintext is False


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "FRONTROW_DATABASE_URL: must be set"),
        ({"URL": "mysql://u:secret@h/db"}, "FRONTROW_DATABASE_URL: must begin with postgresql://"),
        (
            {"URL": "postgresql://u@h/db?password=secret"},
            "FRONTROW_DATABASE_URL: the password stands before the host",
        ),
        (
            {"URL": "postgresql://h/db", "POOL_SIZE": "many"},
            "FRONTROW_DATABASE_POOL_SIZE: Input should be a valid integer",
        ),
    ],
)
def test_a_wrong_setting_is_told_by_its_variable_and_never_by_its_value(monkeypatch, variables, told):
    monkeypatch.delenv("FRONTROW_DATABASE_URL", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"FRONTROW_DATABASE_{name}", value)
    with pytest.raises(ValidationError) as refused:
        DatabaseSettings()
    said = settings_error.explain(refused.value)
    assert told in said
    assert "secret" not in said


def test_a_rule_about_several_settings_names_them(monkeypatch):
    monkeypatch.setenv("FRONTROW_TLS_CERT", "/some/cert.pem")
    with pytest.raises(ValidationError) as refused:
        TransportSettings()
    assert "  FRONTROW_TLS_CERT and FRONTROW_TLS_KEY belong together" in settings_error.explain(refused.value)
