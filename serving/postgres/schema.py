"""Brings the tables of a database to the newest revision, and refuses those of a newer Evigraph."""

from __future__ import annotations

from typing import Any

from serving.postgres.address import StoreAddress, StoreError
from serving.postgres.link import explained, parameters

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

    def connect() -> Any:
        return psycopg.connect(parameters(address))

    config = Config()
    config.set_main_option("script_location", "serving.postgres:migrations")
    known = {one.revision for one in ScriptDirectory.from_config(config).walk_revisions()}
    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=pool.NullPool)
    try:
        with engine.connect() as connection:
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
