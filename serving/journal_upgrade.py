"""Journals of earlier versions: read, and stored anew in the tables of today.

Versions 1 and 2 named texts by their hashes in hex and held replies beside the calls; version 1 knew neither
servers nor log-probabilities, and at first held the parameters themselves.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from serving.journal_tables import INSERT_CALL, SCHEMA_VERSION, CallRow, Texts, create


def upgrade(database: sqlite3.Connection) -> None:
    """Convert a journal of an earlier version where it stands, all or nothing.

    Raises:
        sqlite3.Error: It cannot be read or written.
    """
    with database:
        database.execute("BEGIN IMMEDIATE")
        # Another process may have been first.
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA_VERSION:
            return
        for table in ("texts", "calls"):
            database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        create(database)
        _copy(database, version, "old_texts", "old_calls")
        for table in ("texts", "calls"):
            database.execute(f"DROP TABLE old_{table}")
    try:
        database.execute("VACUUM")
    except sqlite3.OperationalError:
        # It only gives room back, and for that it wants some, and nobody else at the file.
        return


def upgraded_copy(address: str) -> sqlite3.Connection:
    """A journal of an earlier version, converted into memory; the file stays as it is.

    Args:
        address: Its URI, with the mode to open it in.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    database = sqlite3.connect("file::memory:", uri=True, check_same_thread=False, isolation_level=None)
    try:
        database.execute("ATTACH ? AS old", (address,))
        with database:
            database.execute("BEGIN")
            (version,) = database.execute("PRAGMA old.user_version").fetchone()
            create(database)
            _copy(database, version, "old.texts", "old.calls")
        database.execute("DETACH old")
        database.execute("PRAGMA query_only=1")
    except BaseException:
        database.close()
        raise
    return database


def _copy(database: sqlite3.Connection, version: int, old_texts: str, old_calls: str) -> None:
    texts = Texts(database)
    for (body,) in database.execute(f"SELECT body FROM {old_texts}"):  # noqa: S608 - our own names
        texts.number(body)
    try:
        database.executemany(INSERT_CALL, _rows(database, version, old_calls, texts))
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"a call of schema {version} is malformed: {error}") from error


def _rows(database: sqlite3.Connection, version: int, old_calls: str, texts: Texts) -> Iterator[CallRow]:
    later = "server, logprobs" if version > 1 else "'', ''"
    calls = database.execute(
        "SELECT key, model, role, case_id, sample, prompt, parameters, reply, finish_reason,"  # noqa: S608
        f" {later}, input_tokens, output_tokens, cached_tokens, seconds, retries, rejected FROM {old_calls}"
    )
    for key, model, role, case_id, sample, prompt, parameters, reply, finish_reason, *rest in calls:
        server, logprobs, *counts = rest
        turns = " ".join(
            f"{texts.number(name)} {_number(texts, hash_)}" for name, hash_ in json.loads(prompt)
        )
        yield CallRow._make(
            (
                bytes.fromhex(key),
                texts.number(model),
                texts.number(role),
                case_id,
                sample,
                turns,
                _parameters(texts, parameters),
                texts.number(reply),
                texts.number(finish_reason),
                *counts,
                texts.number(server),
                texts.number(logprobs),
            )
        )


def _number(texts: Texts, hash_: str) -> int:
    number = texts.number_of_hash(bytes.fromhex(hash_))
    if number is None:
        raise ValueError(f"its text {hash_} is missing")
    return number


def _parameters(texts: Texts, stored: Any) -> int:
    return texts.number(stored) if stored[:1] in {"", "{"} else _number(texts, stored)
