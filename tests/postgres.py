"""A PostgreSQL server for the tests: started when first asked for, stopped and removed when Python ends."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

_PLACES = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin"]

# the shell holds the server's leash: should the tests be killed, their end of the pipe closes and the server goes too
_UNTIL_STDIN_CLOSES = '"$@" & server=$!; read -r line; kill -INT $server; wait $server'


class Server:
    """A server on a socket in a folder of its own; it syncs to disk, as a server with a ledger must."""

    def __init__(self, binaries: Path, user: str | None) -> None:
        self.binaries = binaries
        self.as_user: dict[str, Any] = {}
        # not pytest's tmp_path: another user could not enter it, and its name may be too long for a socket
        self.folder = Path(tempfile.mkdtemp(prefix="geodp-pg-"))
        if user is not None:
            account = pwd.getpwnam(user)
            self.as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.names = itertools.count()
        try:
            self._run("initdb", "-D", self.data, "-U", "geodp", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        atexit.register(self.remove)

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=1200, check=False, **self.as_user)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def start(self) -> None:
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}", "-c", "max_connections=40"]
        command = ["sh", "-c", _UNTIL_STDIN_CLOSES, "sh", str(self.binaries / "postgres"), "-D", self.data, *options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, **self.as_user
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + 600.0
        while True:
            try:
                return self.execute("SELECT 1")
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(host=str(self.folder), user="geodp", dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)

    def crash(self) -> None:
        """Let every process of the server quit at once without writing anything more: recovery follows at the next start."""
        identity = Path(self.data, "postmaster.pid").read_text().split()[0]
        os.kill(int(identity), signal.SIGQUIT)
        self.stop()

    def stop(self) -> None:
        self.process.communicate(timeout=600)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, user: str = "geodp", **settings: str) -> str:
        """The URL of a new and empty schema."""
        schema = f"ledger_{next(self.names)}"
        self.execute(f"CREATE SCHEMA {schema}")
        self.execute(f"GRANT USAGE ON SCHEMA {schema} TO public")
        options = "".join(f"%20-c{name}={value}" for name, value in settings.items())
        return f"postgresql+psycopg://{user}@/postgres?host={self.folder}&options=-csearch_path={schema}{options}"


def _unprivileged() -> str | None:
    """Whom to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise LookupError("PostgreSQL does not run as root, and there is no user postgres or nobody")


@functools.cache
def _start() -> Server | str:
    """The server, or why there is none."""
    folders = [folder for place in _PLACES for folder in sorted(Path("/").glob(place.lstrip("/")), reverse=True)]
    on_path = shutil.which("postgres")
    folders += [Path(on_path).parent] if on_path else []
    binaries = next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)
    if binaries is None:
        return "no PostgreSQL server on this machine: initdb and postgres were not found"
    try:
        import psycopg  # noqa: F401 - only whether it can be imported matters
    except ImportError:
        return "the driver is missing: pip install 'geodp[postgres]'"
    try:
        return Server(binaries, _unprivileged())
    except LookupError as error:
        return str(error)


def server() -> Server:
    """The one server of this test run; without PostgreSQL on the machine the test is skipped."""
    found = _start()
    if isinstance(found, str):
        pytest.skip(found)
    return found
