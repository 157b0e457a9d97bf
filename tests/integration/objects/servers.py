"""Real S3 servers for the store's contract: moto in this process, SeaweedFS as a child."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "frontrow-test"
KEYS = {"access_key_id": "frontrow", "secret_access_key": "frontrow-secret"}


def store_url(endpoint: str, prefix: str) -> str:
    """Return the URL of the test bucket at `endpoint`."""
    options = {"endpoint": endpoint, "region": "us-east-1", **KEYS}
    return f"s3://{BUCKET}/{prefix}?" + "&".join(f"{k}={v}" for k, v in options.items())


@contextmanager
def moto_endpoint() -> Iterator[str]:
    """Run moto's S3 with the test bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    _create_bucket(endpoint)
    try:
        yield endpoint
    finally:
        server.stop()


def _create_bucket(endpoint: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEYS["access_key_id"],
        aws_secret_access_key=KEYS["secret_access_key"],
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()


@dataclass(frozen=True)
class Weed:
    """How to run SeaweedFS with the test bucket: its command, environment and the endpoint it will have."""

    argv: list[str]
    environment: dict[str, str]
    endpoint: str


def weed_of(folder: Path) -> Weed:
    """Choose ports for a SeaweedFS in `folder`; started again by the same command it has its objects."""
    names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port"]
    names += ["filer.port.grpc", "s3.port", "s3.port.grpc", "admin.port", "admin.port.grpc"]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    fixed = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-master.telemetry=false"]
    fixed += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-admin.ui=false", f"-bucket={BUCKET}"]
    fixed += [
        f"-dir={folder}",
        f"-s3.localSocket={folder}/s3.sock",
        f"-filer.localSocket={folder}/filer.sock",
    ]
    weed = Path(sys.executable).parent / "weed"
    environment = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "AWS_ACCESS_KEY_ID": KEYS["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": KEYS["secret_access_key"],
    }
    argv = [str(weed), f"-logdir={folder}", "mini", *fixed, *(f"-{n}={p}" for n, p in ports.items())]
    return Weed(argv, environment, f"http://127.0.0.1:{ports['s3.port']}")


@contextmanager
def seaweedfs_endpoint(folder: Path) -> Iterator[str]:
    """Run SeaweedFS with the test bucket; its files and logs stay in `folder`."""
    weed = weed_of(folder)
    with (folder / "weed.out").open("wb") as output:
        child = subprocess.Popen(weed.argv, stdout=output, stderr=output, cwd=folder, env=weed.environment)
        try:
            await_bucket(weed.endpoint, lambda: child.poll() is None)
            yield weed.endpoint
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago, below the ephemeral range's usual use by clients."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def await_bucket(endpoint: str, alive: Callable[[], bool], *, patience_seconds: float = 30.0) -> None:
    """Block until the test bucket takes an object; raises when the server has ended or takes too long."""
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEYS["access_key_id"],
        aws_secret_access_key=KEYS["secret_access_key"],
    )
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            client.head_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
        except (BotoCoreError, ClientError):
            if not alive() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            client.close()
            return
