"""The compose file can't be started here; its structure is held to what the processes need."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic_settings import BaseSettings

from libs.common import metrics_endpoint
from libs.common.database_passwords import OWN_FILE
from libs.common.plaintext import PlaintextSettings
from libs.common.settings import (
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from services.asr.settings import AsrSettings
from services.asr.slicing.settings import SlicingWorkerSettings
from services.asr.worker.settings import AsrWorkerSettings
from services.ingest.settings import IngestSettings
from services.ingest.worker.settings import IngestWorkerSettings
from services.review.settings import ReviewSettings
from services.settings import ProcessSettings
from services.task.settings import TaskSettings

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "frontrow:local"]
SERVERS = {"task": "7104", "review": "7102", "asr": "7103", "ingest": "7101"}
WORKERS = {
    "ingest-worker": "services.ingest.worker",
    "asr-worker": "services.asr.worker",
    "slicing-worker": "services.asr.slicing",
}


def test_every_part_of_the_product_is_there() -> None:
    assert {"postgres", "objects", "collector", "owner", "migrate", *SERVERS, *WORKERS} <= set(SERVICES)


def test_one_image_runs_all_processes_of_ours() -> None:
    ours = {name: SERVICES[name] for name in (*SERVERS, *WORKERS, "owner", "migrate", "cli")}
    assert {service["image"] for service in ours.values()} == {"frontrow:local"}
    assert {service["build"] for service in ours.values()} == {"."}


def test_each_server_listens_on_its_port_and_is_asked_for_its_health_there() -> None:
    for name, port in SERVERS.items():
        service = SERVICES[name]
        assert service["command"] == ["python", "-m", f"services.{name}"]
        assert service["environment"][f"FRONTROW_{name.upper()}_LISTEN"] == f"0.0.0.0:{port}"
        assert service["healthcheck"]["test"][-1] == f"127.0.0.1:{port}"


def _module(name: str) -> str:
    """Return the module that a service of ours runs."""
    said = [*SERVICES[name].get("entrypoint", ()), *SERVICES[name].get("command", ())]
    assert said[:2] == ["python", "-m"], name
    return str(said[2])


def test_every_command_is_a_module_that_exists() -> None:
    for name in OURS:
        module = _module(name)
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), f"{name}: {module}"
    assert {name: _module(name) for name in WORKERS} == WORKERS


def test_workers_know_no_more_than_they_need_and_wait_for_the_task_server() -> None:
    for name in WORKERS:
        assert SERVICES[name]["depends_on"] == {"task": {"condition": "service_healthy"}}
        assert "ports" not in SERVICES[name]
        assert "FRONTROW_DATABASE_URL" not in SERVICES[name]["environment"]


def test_each_workers_health_is_asked_where_it_answers() -> None:
    answers = {
        "ingest-worker": IngestWorkerSettings().listen,
        "asr-worker": AsrWorkerSettings().listen,
        "slicing-worker": SlicingWorkerSettings().listen,
    }
    for name, address in answers.items():
        assert SERVICES[name]["healthcheck"]["test"][-1] == address


def test_dependencies_name_services_that_exist() -> None:
    for name, service in SERVICES.items():
        for needed in service.get("depends_on", {}):
            assert needed in SERVICES, f"{name} waits for {needed}"


def test_processes_call_each_other_on_addresses_that_demand_a_certificate() -> None:
    assert "INSECURE" not in TEXT
    for name, port in SERVERS.items():
        inside = port.replace("71", "72", 1)
        listening = SERVICES[name]["environment"]
        assert listening["FRONTROW_PROCESS_LISTEN"] == f"0.0.0.0:{inside}"
        assert listening["FRONTROW_TLS_CLIENT_CA"] == listening["FRONTROW_TLS_CA"]
        for calling in (*SERVERS, *WORKERS):
            told = SERVICES[calling]["environment"]
            assert told[f"FRONTROW_{name.upper()}_ADDRESS"] == f"{name}:{inside}"
        assert SERVICES["cli"]["environment"][f"FRONTROW_{name.upper()}_ADDRESS"] == f"{name}:{port}"


def test_each_process_has_an_identity_of_its_own_and_none_has_the_authoritys_key() -> None:
    identities = {name: f"{name}-identity" for name in (*SERVERS, *WORKERS, "cli")}
    for name, volume in identities.items():
        mounts = dict(mount.split(":", 1) for mount in SERVICES[name]["volumes"])
        assert mounts[volume] == "/identity:ro"
        assert "authority" not in mounts
        assert not set(mounts) & set(identities.values()) - {volume}
        for service in ("certificates", "tokens"):
            assert f"{volume}:/identities/{name}" in SERVICES[service]["volumes"]
    certified = [part.partition("=")[0] for part in SERVICES["certificates"]["command"][6:]]
    assert certified == [*SERVERS, *WORKERS, "--trusting", "cli"]
    assert [part.partition("=")[0] for part in SERVICES["tokens"]["command"][6:]] == list(identities)
    made = re.findall(r"/identities/([a-z-]+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert set(made) == {*identities, "authority"}


def test_each_server_is_a_database_role_of_its_own_and_knows_no_other_password() -> None:
    for name in SERVERS:
        told = SERVICES[name]["environment"]
        assert told["FRONTROW_DATABASE_ROLES"] == "true"
        url = urlsplit(told["FRONTROW_DATABASE_URL"])
        assert (url.netloc, url.query) == ("postgres:5432", f"passfile=/identity/{OWN_FILE}")
    identities = {f"{name}-identity:/identities/{name}" for name in SERVERS}
    assert set(SERVICES["owner"]["volumes"]) == {"database:/database", *identities}
    _, _, *options, apply = SERVICES["owner"]["command"]
    assert options == ["--passwords", "/database/roles.pgpass", "--identities", "/identities"]
    assert apply == "--apply"
    for name, service in SERVICES.items():
        assert ("POSTGRES_PASSWORD" in str(service.get("environment"))) == (name in {"postgres", "owner"})
        reads_all = any(mount.startswith("database:") for mount in service.get("volumes", ()))
        assert reads_all == (name in {"owner", "migrate"})


def test_every_volume_of_ours_is_a_folder_of_the_image_that_its_user_may_write() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    owned = re.search(r"install -d -o frontrow -g frontrow ((?:[^\\\n]|\\\n)+)", dockerfile)
    assert owned is not None
    folders = {*owned[1].replace("\\", "").split(), "/var/lib/frontrow"}
    for name in OURS:
        mounts = [mount.split(":")[:2] for mount in SERVICES[name].get("volumes", ())]
        for volume, path in mounts:
            assert volume in COMPOSE["volumes"]
            assert path in folders, f"{name}: {path}"


def test_only_spiders_and_who_monitors_have_a_door_and_only_on_this_machine_unless_said() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {
        "ingest": ["${INGEST_BIND:-127.0.0.1}:7101:7101"],
        "prometheus": ["127.0.0.1:9090:9090"],
        "grafana": ["127.0.0.1:3000:3000"],
    }


def test_prometheus_fetches_the_collectors_page_and_has_the_alerts_and_grafana_has_the_dashboard() -> None:
    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / name).read_text(encoding="utf-8"))
        return found

    [job] = read("prometheus/prometheus.yaml")["scrape_configs"]
    exporter = read("collector.yaml")["exporters"]["prometheus"]
    assert job["static_configs"] == [{"targets": [f"collector:{exporter['endpoint'].rpartition(':')[2]}"]}]
    # the names of a process's own page
    assert (exporter["namespace"], job["job_name"]) == (metrics_endpoint.PREFIX, "frontrow")
    for name in ("prometheus", "grafana"):
        assert SERVICES[name]["profiles"] == ["monitoring"]
    for file in read("prometheus/prometheus.yaml")["rule_files"]:
        assert (ROOT / "deploy" / "prometheus" / file).is_file()


def test_no_secret_has_a_default() -> None:
    for name in ("POSTGRES_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY", "INGEST_SEALING_KEY"):
        assert f"${{{name}:-" not in TEXT
        assert f"${{{name}:?" in TEXT
        assert f"{name}=change-me" in (ROOT / "deploy" / "example.env").read_text(encoding="utf-8")


def _variables(*models: type[BaseSettings]) -> set[str]:
    return {
        f"{model.model_config.get('env_prefix', '')}{field}".upper()
        for model in models
        for field in model.model_fields
    }


_PROCESS = _variables(TransportSettings, PeerSettings, StoreSettings, TelemetrySettings, PlaintextSettings)
_OF_MODULE = {
    "services.task": _PROCESS | _variables(DatabaseSettings, TaskSettings),
    "services.review": _PROCESS | _variables(DatabaseSettings, ReviewSettings),
    "services.asr": _PROCESS | _variables(DatabaseSettings, AsrSettings),
    "services.ingest": _PROCESS | _variables(DatabaseSettings, IngestSettings),
    "services.ingest.worker": _PROCESS | _variables(IngestWorkerSettings),
    "services.asr.worker": _PROCESS | _variables(AsrWorkerSettings),
    "services.asr.slicing": _PROCESS | _variables(SlicingWorkerSettings),
    "services.migrate": _variables(DatabaseSettings, TelemetrySettings, PlaintextSettings),
    "cli": _variables(TransportSettings, PeerSettings, ProcessSettings, DatabaseSettings, PlaintextSettings),
}


def test_every_variable_is_one_that_a_setting_of_the_process_reads() -> None:
    for name in OURS:
        told = {one for one in SERVICES[name].get("environment", ()) if one.startswith("FRONTROW_")}
        assert told <= _OF_MODULE[_module(name)], f"{name}: {told - _OF_MODULE[_module(name)]}"


def test_the_settings_of_a_deployment_without_containers_are_ones_that_some_process_reads() -> None:
    known = set().union(*_OF_MODULE.values())
    for file in ("settings.env", "owner.env", "run"):
        text = (ROOT / "deploy" / file).read_text(encoding="utf-8")
        told = set(re.findall(r"^\s*(FRONTROW_\w+)=", text, re.MULTILINE))
        assert told
        assert told <= known, f"{file}: {told - known}"


def test_the_variables_of_the_example_are_those_that_the_file_asks_for() -> None:
    example = (ROOT / "deploy" / "example.env").read_text(encoding="utf-8")
    given = set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    assert given == set(re.findall(r"\$\{(\w+)", TEXT))


def test_every_file_that_compose_and_the_image_name_is_there() -> None:
    for name, service in SERVICES.items():
        if service.get("build"):
            assert (ROOT / service["build"] / "Dockerfile").is_file()
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], name
        for config in service.get("configs", ()):
            assert config["source"] in COMPOSE["configs"]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for folder in re.findall(r"^COPY (?!--from)(\S+) ", dockerfile, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder
    locks = re.findall(r"-r (\S+)", dockerfile)
    assert locks
    for lock in locks:
        assert (ROOT / lock).is_file(), lock


def test_the_collectors_configuration_receives_traces_and_metrics() -> None:
    collector = yaml.safe_load((ROOT / "deploy" / "collector.yaml").read_text(encoding="utf-8"))
    for pipeline in collector["service"]["pipelines"].values():
        assert pipeline["receivers"] == ["otlp"]
        assert set(pipeline["exporters"]) <= set(collector["exporters"])
    assert set(collector["service"]["pipelines"]) == {"traces", "metrics"}


def test_what_the_image_copies_is_let_through_to_the_build() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (\S+)/ ", dockerfile, re.MULTILINE)
    assert set(copied) == {"requirements", "libs", "services", "cli"}
    for folder in copied:
        assert f"!{folder}/" in ignored
    assert "USER frontrow" in dockerfile


def test_whatever_is_called_in_plaintext_is_named_as_such_and_nothing_else_is() -> None:
    for name in OURS:
        environment = {key: str(value) for key, value in SERVICES[name].get("environment", {}).items()}
        assert "FRONTROW_INSECURE_PLAINTEXT" not in environment, "that would open the servers, too"
        called = re.sub(r"\$\{[^}]*\}", "x", " ".join(environment.values()))
        plain = set(re.findall(r"http://([a-z0-9.-]+)", called))
        plain |= set(re.findall(r"postgresql://(?:[^@\s]*@)?([a-z0-9.-]+):(?!\S*sslmode)", called))
        permitted = set(filter(None, environment.get("FRONTROW_PLAINTEXT_HOSTS", "").split(",")))
        assert plain == permitted, name
