"""Where the store is: a file, or an address of a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from planner.errors import StoreError

_SMALLEST_DATABASE_BYTES = 512  # one page of the smallest size (SQLite file format, section 1.3)


@dataclass(frozen=True)
class Address:
    """A database that can be opened."""

    url: URL
    file: Path | None
    """The file of a SQLite database; None for a server and for one in memory."""

    @property
    def shown(self) -> str:
        """How messages name it, without a password."""
        return str(self.file) if self.file else self.url.render_as_string(hide_password=True)


def parse(text: str | None) -> Address:
    """The address a user wrote: a file, a SQLAlchemy URL, or nothing for the default file.

    Raises StoreError for a URL of another kind of database or one that cannot be read.
    """
    if not text:
        return _of_file(_default_file())
    if "://" not in text:
        return _of_file(Path(text).expanduser())
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:  # not shown: it may hold a password
        raise StoreError(
            "the address of the database cannot be read"
            " (write a file name or postgresql://user:password@host:5432/database)"
        ) from error
    kind, _, driver = url.drivername.partition("+")
    if kind == "sqlite" and driver in {"", "pysqlite"} and not url.query:
        return _of_file(Path(url.database)) if url.database else Address(url, None)
    if kind in {"postgresql", "postgres"}:
        return Address(url.set(drivername=f"postgresql+{driver or 'psycopg'}"), None)
    raise StoreError(
        f"{url.drivername!r} databases are not known, or not with these options"
        " (write a file name, sqlite:///file or postgresql://…)"
    )


def _of_file(file: Path) -> Address:
    if str(file) == ":memory:":
        return Address(URL.create("sqlite"), None)
    return Address(URL.create("sqlite", database=str(file)), file)


def _default_file() -> Path:
    from platformdirs import user_data_dir

    folder = Path(user_data_dir("planner", appauthor=False))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {folder} for the database cannot be created: {error.strerror}"
            " (name a file with --db, or set PLANNER_DB)"
        ) from error
    return folder / "plans.db"


def too_short_for_a_database(file: Path) -> bool:
    """Whether the file holds something that SQLite would take for empty and write over.

    SQLite reads a file of one byte as an empty database; longer ones it refuses by itself.
    """
    try:
        size = file.stat().st_size
    except OSError:
        return False  # absent, or not to be looked at: opening it tells which
    return 0 < size < _SMALLEST_DATABASE_BYTES
