"""A folder of certificates: made once, renewed in time, and an authority that nothing replaces."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from libs.common.certificates import Unusable, held, make

NOW = datetime.now(UTC)


def _whys(folder: Path, *names: str, days: int = 0, hosts: tuple[str, ...] = ()) -> dict[str, str]:
    made = make(folder, dict.fromkeys(names, hosts), now=NOW + timedelta(days=days))
    return {one.name: one.why for one in made if one.why}


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*.pem"))}


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _verify(folder: Path, name: str, at: datetime) -> None:
    store = Store([_certificate(folder / "authority/certificate.pem")])
    verifier = PolicyBuilder().store(store).time(at).build_client_verifier()
    verifier.verify(_certificate(folder / name / "certificate.pem"), [])


def test_a_second_run_changes_nothing_and_a_new_name_only_adds(tmp_path: Path) -> None:
    assert set(_whys(tmp_path, "task", "review")) == {"authority", "task", "review"}
    before = _contents(tmp_path)
    assert _whys(tmp_path, "task", "review") == {}
    assert _contents(tmp_path) == before
    assert _whys(tmp_path, "task", "review", "asr") == {"asr": "there was none"}
    assert _contents(tmp_path).items() >= before.items()


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    make(tmp_path, {"task": ()}, ["people"])
    assert {path.parent.name for path in tmp_path.rglob("key.pem")} == {"authority", "task"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.rglob("key.pem"))
    assert (tmp_path / "authority").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "people").iterdir()] == ["authority.pem"]


def test_a_certificate_serves_and_calls_by_its_names_alone(tmp_path: Path) -> None:
    make(tmp_path, {"task": ("task.internal", "10.0.0.4")})
    leaf = _certificate(tmp_path / "task/certificate.pem")
    store = Store([_certificate(tmp_path / "task/authority.pem")])
    policy = PolicyBuilder().store(store)
    for host in ("task", "task.internal", "localhost"):
        policy.build_server_verifier(x509.DNSName(host)).verify(leaf, [])
    with pytest.raises(x509.verification.VerificationError):
        policy.build_server_verifier(x509.DNSName("review")).verify(leaf, [])
    policy.build_client_verifier().verify(leaf, [])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"10.0.0.4", "127.0.0.1", "::1"} == set(map(str, names.get_values_for_type(x509.IPAddress)))


def test_what_ends_within_ninety_days_is_renewed_in_time_and_the_authority_stays(tmp_path: Path) -> None:
    _whys(tmp_path, "task")
    authority = (tmp_path / "authority/certificate.pem").read_bytes()
    assert _whys(tmp_path, "task", days=300) == {}
    assert _whys(tmp_path, "task", days=310) == {"task": "its time was nearly over"}
    assert _whys(tmp_path, "task", days=310) == {}
    # renewed at each chance for years: good at any moment, and never beyond the authority
    for days in range(400, 3640, 80):
        _whys(tmp_path, "task", days=days)
        _verify(tmp_path, "task", NOW + timedelta(days=days))
    ends = held(tmp_path)
    assert ends[1].expires == ends[0].expires
    assert _whys(tmp_path, "task", days=3641) == {}
    assert (tmp_path / "authority/certificate.pem").read_bytes() == authority
    with pytest.raises(Unusable, match="never replaced"):
        _whys(tmp_path, "task", days=3651)


def test_other_hosts_a_broken_file_a_lost_key_and_another_authority_are_each_mended(tmp_path: Path) -> None:
    _whys(tmp_path, "task")
    assert _whys(tmp_path, "task", hosts=("task.internal",)) == {"task": "its names were others"}
    (tmp_path / "task/certificate.pem").write_text("-----BEGIN")
    assert _whys(tmp_path, "task") == {"task": "it was broken"}
    (tmp_path / "task/key.pem").unlink()
    assert _whys(tmp_path, "task") == {"task": "there was none"}
    _whys(tmp_path / "other", "task")
    for name in ("certificate.pem", "key.pem"):
        (tmp_path / "task" / name).write_bytes((tmp_path / "other/task" / name).read_bytes())
    assert _whys(tmp_path, "task") == {"task": "it was another authority's"}
    _whys(tmp_path, "review")
    (tmp_path / "task/key.pem").write_bytes((tmp_path / "review/key.pem").read_bytes())
    assert _whys(tmp_path, "task") == {"task": "its key was another one's"}


def test_an_authority_is_never_written_again_whatever_state_it_is_in(tmp_path: Path) -> None:
    _whys(tmp_path, "task")
    key, certificate = tmp_path / "authority/key.pem", tmp_path / "authority/certificate.pem"
    kept = key.read_bytes()
    key.unlink()  # kept elsewhere, as it should be
    assert _whys(tmp_path, "task") == {}
    with pytest.raises(Unusable, match="bring it back"):
        _whys(tmp_path, "review")
    assert not (tmp_path / "review/certificate.pem").exists()
    key.write_bytes((tmp_path / "task/key.pem").read_bytes())
    with pytest.raises(Unusable, match="not the key"):
        _whys(tmp_path, "review")
    key.write_bytes(kept)
    was = certificate.read_bytes()
    certificate.unlink()
    with pytest.raises(Unusable, match="without its certificate"):
        _whys(tmp_path, "task")
    certificate.write_text("nonsense")
    with pytest.raises(Unusable, match="no PEM certificate"):
        _whys(tmp_path, "task")
    certificate.write_bytes(was)
    assert key.read_bytes() == kept


def test_several_at_once_agree_on_one_authority(tmp_path: Path) -> None:
    names = [f"worker-{number}" for number in range(8)]
    threads = [threading.Thread(target=_whys, args=(tmp_path, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path.read_bytes() for path in tmp_path.rglob("authority.pem")}) == 1
    assert _whys(tmp_path, *names) == {}


@pytest.mark.parametrize("name", ["authority", "../task", "", "Task", "a b", "-task"])
def test_a_name_that_is_no_folder_of_its_own_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(Unusable, match="name"):
        make(tmp_path / "pki", {name: ()})
    with pytest.raises(Unusable, match="name"):
        make(tmp_path / "pki", {}, [name])
    assert not (tmp_path / "pki").exists()


def test_a_host_that_can_be_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="展台"):
        make(tmp_path, {"task": ("展台.example",)})
