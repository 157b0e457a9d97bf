"""What the process of all contexts refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from services.composition import Composition, OneAddressForFour


def test_one_address_for_processes_is_refused_where_four_servers_would_share_it(tmp_path: Path) -> None:
    pair = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
    transport = TransportSettings(**pair, tls_client_ca=tmp_path / "ca.pem", process_listen="0.0.0.0:7200")
    common = CommonSettings(
        database=DatabaseSettings(url="postgresql://nowhere"),
        transport=transport,
        peers=PeerSettings(),
        store=StoreSettings(),
        telemetry=TelemetrySettings(),
    )
    with pytest.raises(OneAddressForFour, match="FRONTROW_PROCESS_LISTEN"):
        Composition(common, tmp_path)
