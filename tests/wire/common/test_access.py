"""Who gets in: tokens, their roles, certificates of processes, and changes of both without a restart."""

import asyncio
import hashlib
import hmac
from pathlib import Path

import grpc
import pytest

from libs.common import access, health_probe
from libs.common.access import ANYONE, Rules, TokenFile
from libs.common.bearer import BearerToken
from libs.common.client import connect, error_info, reason_of
from libs.common.credentials import InsecureTransport, ServerPair
from libs.common.interceptors import access as access_step
from libs.common.settings import TransportSettings
from libs.common.testing import eventually
from tests.wire.common.authority import Authority
from tests.wire.common.guarded import calling_as, entry, guarded, who, write_tokens
from tests.wire.common.probe import ASK, Probe, Request, failure, stub_on


async def test_without_a_token_only_what_is_open_to_anyone_can_be_called(tmp_path):
    write_tokens(tmp_path, ann="editor")
    async with guarded(tmp_path) as stub:
        refused = await failure(stub.Ask(Request(), timeout=5))
        assert (refused.code(), reason_of(refused)) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_MISSING")
        assert len([part async for part in stub.Watch(Request(), timeout=5)]) == 1


@pytest.mark.parametrize("value", ["Bearer nonsense", "Bearer ", "Basic dG9rZW4=", "token-of-ann", ""])
async def test_what_is_no_known_token_is_refused_and_never_repeated(tmp_path, value):
    write_tokens(tmp_path, ann="editor")
    async with guarded(tmp_path) as stub:
        refused = await failure(stub.Ask(Request(), timeout=5, metadata=(("authorization", value),)))
        assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
        assert reason_of(refused) in {"TOKEN_MISSING", "TOKEN_UNKNOWN"}
        assert "nonsense" not in str(refused)


def test_how_long_a_token_takes_tells_nothing_of_those_that_are_known(tmp_path, monkeypatch):
    """All are compared, whichever fits, and each in constant time."""
    seen: list[tuple[str, str]] = []
    compare = hmac.compare_digest

    def noting(one: str, other: str) -> bool:
        seen.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(access.hmac, "compare_digest", noting)
    tokens = TokenFile(write_tokens(tmp_path, ann="editor", bob="ops", eve="worker"))
    for token, subject in (("token-of-ann", "ann"), ("token-of-eve", "eve"), ("token-of-nobody", None)):
        seen.clear()
        found = tokens.find(token)
        assert (found and found.subject) == subject
        digest = hashlib.sha256(token.encode()).hexdigest()
        assert [other for _, other in seen] == [digest] * 3
        assert len({one for one, _ in seen}) == 3


async def test_of_two_tokens_none_is_taken(tmp_path):
    write_tokens(tmp_path, ann="editor", root="admin")
    async with guarded(tmp_path) as stub:
        for tokens in (("root", "ann"), ("ann", "nobody"), ("ann", "ann")):
            twice = tuple(("authorization", f"Bearer token-of-{name}") for name in tokens)
            error = await failure(stub.Ask(Request(), metadata=twice))
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_MISSING")


async def test_a_role_that_a_method_does_not_name_may_not_call_it(tmp_path):
    write_tokens(tmp_path, ann="editor", sue="spider", root="admin")
    async with guarded(tmp_path) as stub:
        async with calling_as(stub, tmp_path, "sue") as sue:
            refused = await failure(sue.Ask(Request(), timeout=5))
            assert (refused.code(), reason_of(refused)) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
            assert error_info(refused).metadata["roles"] == "admin, editor, worker"
        async with calling_as(stub, tmp_path, "root") as root:
            assert (await root.Ask(Request(), timeout=5)).text == "root"


async def test_a_stranger_acts_for_nobody_whomever_it_names(tmp_path):
    write_tokens(tmp_path, ann="editor")
    transport = TransportSettings(tokens_file=tmp_path / "tokens.toml")
    async with Probe(ask=who).serving(transport=transport, rules=Rules({ASK: ANYONE})) as stub:
        channel = connect(stub.address, actor="ann")
        assert (await stub_on(channel).Ask(Request(), timeout=5)).text == ""
        await channel.close()


async def test_what_the_table_does_not_name_only_an_admin_may_call(tmp_path):
    write_tokens(tmp_path, ann="editor", root="admin")
    async with guarded(tmp_path) as stub, calling_as(stub, tmp_path, "ann") as ann:
        for method in ("Upload", "Chat"):
            call = getattr(ann, method)(timeout=5)
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_person_acts_as_the_tokens_subject_and_a_process_for_whom_it_names(tmp_path):
    write_tokens(tmp_path, ann="editor", loader="worker")
    async with guarded(tmp_path) as stub:
        async with calling_as(stub, tmp_path, "ann", actor="somebody else") as ann:
            assert (await ann.Ask(Request(), timeout=5)).text == "ann"
        async with calling_as(stub, tmp_path, "loader", actor="ann") as loader:
            assert (await loader.Ask(Request(), timeout=5)).text == "ann"
        async with calling_as(stub, tmp_path, "loader") as loader:
            assert (await loader.Ask(Request(), timeout=5)).text == "loader"


async def test_tokens_are_added_and_withdrawn_without_a_restart_of_server_or_client(tmp_path):
    write_tokens(tmp_path, ann="editor")
    async with guarded(tmp_path) as stub, calling_as(stub, tmp_path, "ann") as ann:
        assert (await ann.Ask(Request(), timeout=5)).text == "ann"
        write_tokens(tmp_path, anna="editor")
        await eventually(lambda: _code(ann, grpc.StatusCode.UNAUTHENTICATED))
        (tmp_path / "ann.token").write_text("token-of-anna\n")
        await eventually(lambda: _code(ann, grpc.StatusCode.OK))


async def test_a_broken_file_of_tokens_changes_nothing(tmp_path):
    path = write_tokens(tmp_path, ann="editor")
    tokens = TokenFile(path)
    path.write_text("[[tokens]]\nsubject = ")
    assert await eventually(lambda: tokens.find("token-of-ann"))
    path.unlink()
    assert tokens.find("token-of-ann") is not None


def test_a_token_whose_time_is_over_is_unknown(tmp_path):
    path = tmp_path / "tokens.toml"
    past, future = "expires = 2020-01-01T00:00:00Z", "expires = 2999-01-01T00:00:00Z"
    path.write_text(entry("old", "editor", past) + "\n" + entry("new", "editor", future))
    tokens = TokenFile(path)
    assert tokens.find("token-of-old") is None
    assert tokens.find("token-of-new").subject == "new"


@pytest.mark.parametrize("wrong", ['sha256 = "abc"', 'token = "secret-token"', "roles = []"])
def test_a_wrong_file_of_tokens_is_told_without_what_it_holds(tmp_path, wrong):
    path = tmp_path / "tokens.toml"
    path.write_text(f'[[tokens]]\nsubject = "ann"\n{wrong}\n')
    with pytest.raises(ValueError, match=r"tokens\.0") as told:
        TokenFile(path)
    assert "secret-token" not in str(told.value)


async def test_a_server_that_others_can_reach_does_not_start_without_tokens(tmp_path):
    certificate, key = Authority(tmp_path).issue("server")
    server = Probe().server("0.0.0.0:0", transport=TransportSettings(tls_cert=certificate, tls_key=key))
    with pytest.raises(InsecureTransport, match="FRONTROW_TOKENS_FILE"):
        await server.start()


async def test_an_address_for_processes_that_others_can_reach_needs_tokens_too(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    transport = TransportSettings(
        tls_cert=certificate, tls_key=key, tls_client_ca=authority.roots, process_listen="0.0.0.0:0"
    )
    server = Probe().server("127.0.0.1:0", transport=transport)
    with pytest.raises(InsecureTransport, match=r"0\.0\.0\.0:0 .*FRONTROW_TOKENS_FILE"):
        await server.start()


def test_the_old_token_is_sent_while_its_file_is_being_written(tmp_path):
    path = tmp_path / "mine.token"
    path.write_text("old-token\n")
    token, sent = BearerToken(path), []
    for written in ("", "two words", None, "new-token\n"):
        path.unlink() if written is None else path.write_text(written)
        token(None, lambda metadata, error: sent.append((metadata[0][1], error)))
    assert sent == [("Bearer old-token", None)] * 3 + [("Bearer new-token", None)]


async def test_a_process_needs_its_certificate_and_people_do_not(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    write_tokens(tmp_path, ann="editor", loader="worker")
    settings = {"tls_cert": certificate, "tls_key": key, "tls_client_ca": authority.roots}
    async with guarded(tmp_path, **settings, process_listen="127.0.0.1:0") as stub:
        inside = stub.server.bound_for_processes
        mine = dict(zip(("tls_cert", "tls_key"), authority.issue("loader"), strict=True))
        trusting = {"tls_ca": authority.roots}
        async with calling_as(stub, tmp_path, "ann", **trusting) as ann:
            assert (await ann.Ask(Request(), timeout=5)).text == "ann"
        async with calling_as(stub, tmp_path, "loader", **trusting) as loader:
            assert reason_of(await failure(loader.Ask(Request(), timeout=5))) == "CERTIFICATE_MISSING"
        async with calling_as(stub, tmp_path, "loader", address=inside, **trusting) as loader:
            assert (await failure(loader.Ask(Request(), timeout=5))).code() is grpc.StatusCode.UNAVAILABLE
        async with calling_as(stub, tmp_path, "loader", address=inside, **trusting, **mine) as loader:
            assert (await loader.Ask(Request(), timeout=5)).text == "loader"
        # the probe of a container has its process's settings and asks at the address for people
        monkeypatch.setenv("FRONTROW_TLS_CA", str(authority.roots))
        monkeypatch.setenv("FRONTROW_TOKEN_FILE", str(tmp_path / "loader.token"))
        assert await asyncio.to_thread(health_probe.main, stub.address) == 0


@pytest.mark.parametrize(
    ("peer", "near"),
    [
        ("ipv4:127.0.0.1:4711", True),
        ("ipv4:127.9.9.9:4711", True),
        ("ipv6:%5B::1%5D:4711", True),
        ("ipv6:[::ffff:127.0.0.1]:4711", True),
        ("unix:", True),
        ("ipv4:10.0.0.1:4711", False),
        ("ipv6:%5Bfd00::1%5D:4711", False),
        ("ipv6:[::ffff:10.0.0.1]:4711", False),
        ("vsock:1:2", False),
        ("ipv4:10.0.0.2:4711", True),
        ("ipv6:[::ffff:10.0.0.2]:4711", True),
        ("", False),
    ],
)
def test_whether_a_peer_is_on_this_machine_is_told_by_its_address(peer, near):
    assert access_step.is_near(peer, {"10.0.0.2"}) is near


async def test_without_certificates_a_process_s_token_is_good_on_this_machine_alone(tmp_path, monkeypatch):
    certificate, key = Authority(tmp_path).issue("server")
    write_tokens(tmp_path, ann="editor", loader="worker")
    trusting = {"tls_ca": tmp_path / "ca.pem"}
    async with (
        guarded(tmp_path, tls_cert=certificate, tls_key=key) as stub,
        calling_as(stub, tmp_path, "loader", **trusting) as loader,
        calling_as(stub, tmp_path, "ann", **trusting) as ann,
    ):
        assert (await loader.Ask(Request(), timeout=5)).text == "loader"
        monkeypatch.setattr(access_step, "is_near", lambda peer, _: not peer.startswith("ipv4:"))
        assert reason_of(await failure(loader.Ask(Request(), timeout=5))) == "CERTIFICATE_MISSING"
        assert (await ann.Ask(Request(), timeout=5)).text == "ann"


async def test_a_new_certificate_is_shown_from_the_next_connection_on(tmp_path):
    old, new = Authority(_made(tmp_path / "old")), Authority(_made(tmp_path / "new"))
    certificate, key = old.issue("server")
    transport = TransportSettings(tls_cert=certificate, tls_key=key)
    async with Probe().serving(transport=transport) as stub:
        assert await _reached(stub.address, old.roots)
        assert not await _reached(stub.address, new.roots)
        for written, place in zip(new.issue("server"), (certificate, key), strict=True):
            written.replace(place)
        assert await _reached(stub.address, new.roots)
        assert not await _reached(stub.address, old.roots)


def test_a_certificate_that_is_the_same_is_not_taken_up_again(tmp_path):
    certificate, key = Authority(_made(tmp_path / "old")).issue("server")
    pair = ServerPair(TransportSettings(tls_cert=certificate, tls_key=key))
    assert pair.current() is None
    for written, place in zip(
        Authority(_made(tmp_path / "new")).issue("server"), (certificate, key), strict=True
    ):
        written.replace(place)
    assert pair.current() is not None
    assert pair.current() is None
    certificate.unlink()
    assert pair.current() is None


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def _reached(address: str, roots: Path) -> bool:
    channel = connect(address, transport=TransportSettings(tls_ca=roots))
    try:
        return await _code(stub_on(channel), grpc.StatusCode.OK)
    finally:
        await channel.close()


async def _code(stub, wanted: grpc.StatusCode) -> bool:
    call = stub.Ask(Request(), timeout=5)
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code() is wanted
    return wanted is grpc.StatusCode.OK
