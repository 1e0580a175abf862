"""Brings the tables of a database to the newest revision, and refuses those of a newer Evigraph."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from serving.postgres.address import StoreAddress, StoreError
from serving.postgres.link import ANSWER_S, cut, explained, is_silence, parameters

_ONE_AT_A_TIME = 0x6576_6967_7261_7068
"""The advisory lock under which tables are made; runners that are started together wait for one another."""


def migrate(address: StoreAddress) -> None:
    """Make the tables that are missing. Blocks: it comes before anything else of a session.

    Raises:
        StoreError: The database cannot be reached, refuses it, or is of a newer Evigraph.
    """
    import psycopg
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine, exc, pool, text

    config = Config()
    config.set_main_option("script_location", "serving.postgres:migrations")
    known = {one.revision for one in ScriptDirectory.from_config(config).walk_revisions()}
    try:
        driver = psycopg.connect(parameters(address))
        engine = create_engine("postgresql+psycopg://", creator=lambda: driver, poolclass=pool.NullPool)
        with _cut_in_silence(address, driver), engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ONE_AT_A_TIME})
            revision = MigrationContext.configure(connection).get_current_revision()
            if revision is not None and revision not in known:
                raise StoreError(f"store {address.name}: written by a newer Evigraph; update first")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
    except exc.DBAPIError as error:
        raise explained(address, error.orig if isinstance(error.orig, Exception) else error) from error
    except psycopg.Error as error:
        raise explained(address, error) from error


@contextlib.contextmanager
def _cut_in_silence(address: StoreAddress, connection: Any) -> Iterator[None]:
    """Cut a connection that blocks this thread once its server does not answer new ones either."""
    import psycopg

    over = threading.Event()

    def watch() -> None:
        while not over.wait(ANSWER_S):
            try:
                psycopg.connect(parameters(address)).close()
            except psycopg.Error as error:
                if is_silence(error):
                    cut(connection)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
