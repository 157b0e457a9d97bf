"""Run the services of docker-compose.yml as plain processes: their commands, environments, volumes, order.

What containers give is stood in for here: a container's files are a folder with links to the volumes, and
each port of each container is a free port of this machine. Images of others (PostgreSQL, S3) run already.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from libs.common.child import command
from tests.e2e.process import ROOT, environment

_COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
_SERVICES: dict[str, dict[str, Any]] = _COMPOSE["services"]
_OURS = {name for name, service in _SERVICES.items() if service["image"] == "frontrow:local"}
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_ADDRESS = re.compile(rf"\b({'|'.join(_SERVICES)}|0\.0\.0\.0|127\.0\.0\.1):(\d+)\b")
_PATH = re.compile(r"(?:^|(?<=\?passfile=))(?=/)")
_READY_SECONDS = 90.0
_STOP_SECONDS = 40.0  # the file's stop_grace_period


class Deployment:
    """The services of the compose file below one folder.

    `values` are those of the file `.env`. `outside` says what takes the place of a variable where a service
    has it, None for nothing: ways to what runs already. `extra` has what a service needs here alone. `hosts`
    says where a service of others runs already.
    """

    def __init__(
        self,
        folder: Path,
        *,
        values: Mapping[str, str],
        outside: Mapping[str, str | None],
        extra: Mapping[str, Mapping[str, str]],
        hosts: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._values = values
        self._outside = outside
        self._extra = extra
        self._hosts = hosts
        self._ports: dict[tuple[str, str], int] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def up(self, *names: str) -> None:
        """Start services and what they depend on, each when its dependencies are as the file wants them."""
        waiting = set(names)
        for name in list(waiting):
            waiting |= self._needed(name)
        done = set(_SERVICES) - _OURS
        while waiting:
            wave = [name for name in sorted(waiting) if set(_SERVICES[name].get("depends_on", {})) <= done]
            for name in wave:
                self._running[name] = self._launch(name)
            for name in wave:
                self._await(name)
            done |= set(wave)
            waiting -= set(wave)

    def run(self, name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a service once, as `docker compose run --rm NAME ARGUMENTS` does."""
        return subprocess.run(
            self._command(name, *arguments),
            cwd=ROOT,
            env=self.environment(name),
            capture_output=True,
            text=True,
            timeout=_READY_SECONDS,
            check=False,
        )

    def down(self) -> dict[str, int]:
        """Stop what runs, workers first; return each process's exit status."""
        statuses: dict[str, int] = {}
        for name in sorted(self._running, key=lambda one: "worker" not in one):
            process = self._running.pop(name)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
            statuses[name] = process.wait(_STOP_SECONDS)
        return statuses

    def address(self, name: str, port: str) -> str:
        """Return where a port of a container is."""
        if name in self._hosts:
            return f"{self._hosts[name]}:{port}"
        if (name, port) not in self._ports:
            (self._ports[name, port],) = free_ports(1)
        return f"127.0.0.1:{self._ports[name, port]}"

    def volume(self, name: str) -> Path:
        """Return a volume's folder."""
        folder = self._folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a service's process."""
        said = {**_SERVICES[name].get("environment", {}), **self._extra.get(name, {})}
        told = {key: self._here(name, value) for key, value in said.items() if key not in self._outside}
        given = {key: value for key in said if (value := self._outside.get(key)) is not None}
        return environment(**told, **given)

    def _needed(self, name: str) -> set[str]:
        direct = set(_SERVICES[name].get("depends_on", {})) & _OURS
        return direct.union(*(self._needed(one) for one in direct))

    def _launch(self, name: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command(self._command(name), signal=signal.SIGTERM),
                cwd=ROOT,
                env=self.environment(name),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _command(self, name: str, *arguments: str) -> list[str]:
        service = _SERVICES[name]
        said = [*service.get("entrypoint", ()), *(arguments or service.get("command", ()))]
        told = [self._here(name, part) for part in said]
        assert told[0] == "python"
        return [sys.executable, *told[1:]]

    def _await(self, name: str) -> None:
        """Wait till a service has done its work, or is healthy where the file says how to ask."""
        process, deadline = self._running[name], time.monotonic() + _READY_SECONDS
        asked = _SERVICES[name].get("healthcheck")
        if asked is None:
            assert process.wait(_READY_SECONDS) == 0, self.log(name)
            return
        _, *probe = (self._here(name, part) for part in asked["test"])
        while not (_listens(probe[-1]) and self._healthy(name, probe)):
            assert process.poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.1)

    def _healthy(self, name: str, probe: list[str]) -> bool:
        assert probe[0] == "python"
        asked = [sys.executable, *probe[1:]]
        return subprocess.run(asked, cwd=ROOT, env=self.environment(name), check=False).returncode == 0

    def log(self, name: str) -> str:
        """Return the end of what a service said."""
        return f"{name}: {(self._folder / f'{name}.log').read_text(errors='replace')[-3000:]}"

    def _here(self, name: str, text: str) -> str:
        """Return a value of the file as it is on this machine: variables, paths, addresses."""
        told = _VARIABLE.sub(self._variable, str(text))
        told = _PATH.sub(str(self._root(name)), told)
        return _ADDRESS.sub(lambda found: self._address(name, found), told)

    def _variable(self, found: "re.Match[str]") -> str:
        name, kind, word = found.groups()
        assert name in self._values or kind == "-", f"{name} must be set in .env: {word}"
        return self._values.get(name, word)

    def _address(self, name: str, found: "re.Match[str]") -> str:
        host, port = found.groups()
        if host in _SERVICES:
            return self.address(host, port)
        return f"{host}:{self.address(name, port).rpartition(':')[2]}"

    def _root(self, name: str) -> Path:
        """Return what is `/` to a service: a folder with links to its volumes."""
        root = self._folder / "containers" / name
        for mount in _SERVICES[name].get("volumes", []):
            volume, path = mount.split(":")[:2]
            link = root / path.removeprefix("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(self.volume(volume))
        return root


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
