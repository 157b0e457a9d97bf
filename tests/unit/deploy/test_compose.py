"""The compose file can't be started here; its structure is held to what the processes need."""

import re
from pathlib import Path
from typing import Any

import yaml

from libs.common import metrics_endpoint
from libs.common.settings import DatabaseSettings, PeerSettings, TelemetrySettings, TransportSettings
from services.asr.slicing.settings import SlicingWorkerSettings
from services.asr.worker.settings import AsrWorkerSettings
from services.ingest.worker.settings import IngestWorkerSettings
from services.settings import ProcessSettings

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SERVERS = {"task": "7104", "review": "7102", "asr": "7103", "ingest": "7101"}
WORKERS = {
    "ingest-worker": "services.ingest.worker",
    "asr-worker": "services.asr.worker",
    "slicing-worker": "services.asr.slicing",
}


def test_every_part_of_the_product_is_there() -> None:
    assert {"postgres", "objects", "collector", "migrate", *SERVERS, *WORKERS} <= set(SERVICES)


def test_one_image_runs_all_processes_of_ours() -> None:
    ours = {name: SERVICES[name] for name in (*SERVERS, *WORKERS, "migrate", "cli")}
    assert {service["image"] for service in ours.values()} == {"frontrow:local"}
    assert {service["build"] for service in ours.values()} == {"."}


def test_each_server_listens_on_its_port_and_is_asked_for_its_health_there() -> None:
    for name, port in SERVERS.items():
        service = SERVICES[name]
        assert service["command"] == ["python", "-m", f"services.{name}"]
        assert service["environment"][f"FRONTROW_{name.upper()}_LISTEN"] == f"0.0.0.0:{port}"
        assert service["healthcheck"]["test"][-1] == f"127.0.0.1:{port}"


def test_every_command_is_a_module_that_exists() -> None:
    for name, service in SERVICES.items():
        if service.get("image") != "frontrow:local" or "command" not in service:
            continue
        module = service["command"][2]
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), f"{name}: {module}"
    assert {name: SERVICES[name]["command"][2] for name in WORKERS} == WORKERS


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
        for volume in SERVICES[name]["volumes"]:
            source = volume.partition(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
    for file in read("prometheus/prometheus.yaml")["rule_files"]:
        assert (ROOT / "deploy" / "prometheus" / file).is_file()


def test_no_secret_has_a_default() -> None:
    for name in ("POSTGRES_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY", "INGEST_SEALING_KEY"):
        assert f"${{{name}:-" not in TEXT
        assert f"${{{name}:?" in TEXT
        assert f"{name}=change-me" in (ROOT / "deploy" / "example.env").read_text(encoding="utf-8")


def test_every_common_variable_is_one_that_a_setting_reads() -> None:
    known = {
        f"{model.model_config['env_prefix']}{field}".upper()
        for model in (DatabaseSettings, PeerSettings, TelemetrySettings, TransportSettings, ProcessSettings)
        for field in model.model_fields
    }
    common = COMPOSE["x-serving"] | SERVICES["cli"]["environment"]
    ours = {name for name in common if name.startswith("FRONTROW_")}
    assert ours <= known, ours - known


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
