"""A database of one command, for more rows than memory holds: DuckDB, which sorts and groups on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MEMORY = "128MB"  # what does not fit goes to the disk
_THREADS = 2

Columns = dict[str, NDArray[Any]]  # equally long arrays by name
Given = Any  # rows: a table of Arrow, or equally long arrays by name


class Database:
    """Tables that keep the order in which their rows were added, numbered by `rowid`."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection

    def run(self, *statements: str) -> None:
        """Run statements that return nothing."""
        for each in statements:
            self._connection.execute(each)

    def add(self, table: str, columns: Given) -> None:
        """Append rows to a table."""
        self.insert(f"INSERT INTO {table} BY NAME SELECT * FROM given", columns)

    def insert(self, statement: str, columns: Given) -> None:
        """Run a statement that reads rows as the table `given`."""
        with self._given(columns):
            self._connection.execute(statement)

    def read(self, query: str, given: Given | None = None) -> Columns:
        """The columns of a query, which may read rows as the table `given`; no value may be null."""
        with nullcontext() if given is None else self._given(given):
            return self._connection.execute(query).fetchnumpy()

    def parts(self, query: str) -> Iterator[Columns]:
        """The columns of a query, some thousand rows at a time; nothing else is run until they end."""
        for batch in self._connection.sql(query).to_arrow_reader(1 << 15):
            yield {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query; None for null."""
        return self._connection.execute(query).fetchall()

    @contextmanager
    def _given(self, columns: Given) -> Iterator[None]:
        self._connection.register("given", columns if isinstance(columns, pa.Table) else pa.table(dict(columns)))
        yield
        self._connection.unregister("given")


@contextmanager
def database(parent: Path | None, *, memory: str = _MEMORY) -> Iterator[Database]:
    """An empty database, removed at the end.

    Args:
        parent: folder in which it makes one of its own for what does not fit into memory; None for the system's.
        memory: most memory of its tables and queries.

    Raises:
        SettingsError: DuckDB is not installed, there is no such folder, or it takes no more data.
    """
    try:
        import duckdb
    except ImportError as error:
        raise SettingsError("expected DuckDB, which sorts what is read: pip install 'glaim-stream[audit]'") from error
    try:
        folder = TemporaryDirectory(prefix="glaim-", dir=parent)
    except OSError as error:
        raise SettingsError(f"expected a folder for temporary files in {parent or gettempdir()}: {error}") from error
    # Tables are kept in memory as far as they fit: a file would be written twice, first to its log.
    with (
        folder as name,
        duckdb.connect(config={"memory_limit": memory, "temp_directory": name, "threads": _THREADS}) as connection,
    ):
        try:
            yield Database(connection)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            reason = str(error).splitlines()[0]
            raise SettingsError(
                f"expected room in {parent or gettempdir()} to sort what was read, found: {reason}. --temp-folder "
                "names another folder"
            ) from error
