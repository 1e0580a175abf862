"""The tables of a shared run: its identity, its cases with their leases, its sessions, and its call journal.

Ids of cases and texts of servers may hold characters that PostgreSQL takes in no text, so they are bytes.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

TABLES = (
    """CREATE TABLE run (
        only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
        manifest text NOT NULL                -- run.json of the runner that began it
    )""",
    "CREATE SEQUENCE fences",
    """CREATE TABLE cases (
        position bigint PRIMARY KEY,          -- in the input, from 0
        case_id bytea NOT NULL,               -- UTF-8
        state text NOT NULL DEFAULT 'open',   -- open, done, waiting, or failed:CLASS
        before text,                          -- the state of a case that was opened again
        holder text,
        fence bigint,                         -- of the last lease; a later one is larger
        expires timestamptz,                  -- by the clock of the database; NULL where it is not leased
        review text,                          -- JSON: what a waiting case goes on with
        line bytea,                           -- of cases.jsonl
        trace bytea                           -- the last pass, as a member of trace.jsonl.gz
    )""",
    "CREATE INDEX open_cases ON cases (position) WHERE state = 'open'",
    "CREATE INDEX cases_by_id ON cases (case_id)",
    """CREATE TABLE sessions (
        number bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        runner text NOT NULL UNIQUE,
        record text NOT NULL                  -- JSON, as in run.json
    )""",
    """CREATE TABLE texts (
        hash bytea PRIMARY KEY,               -- SHA-256 of a text's UTF-8
        body bytea NOT NULL                   -- one byte that says how it is packed, then the text
    )""",
    """CREATE TABLE calls (
        key bytea PRIMARY KEY,
        case_id bytea NOT NULL,
        sample bigint NOT NULL,
        model bytea NOT NULL,                 -- hash of a text, as the next ones
        role bytea NOT NULL,
        parameters bytea NOT NULL,
        reply bytea NOT NULL,
        finish_reason bytea NOT NULL,
        server bytea NOT NULL,
        logprobs bytea NOT NULL,
        prompt bytea NOT NULL,                -- hashes of role, text, role, text, ...
        input_tokens bigint NOT NULL,
        output_tokens bigint NOT NULL,
        cached_tokens bigint NOT NULL,
        seconds double precision NOT NULL,
        retries bigint NOT NULL,
        crc bigint NOT NULL,                  -- of the columns above, and of what a replay takes
        rejected smallint NOT NULL DEFAULT 0  -- as in calls.sqlite
    )""",
    # Texts come deflated, so the server need not try.
    "ALTER TABLE texts ALTER COLUMN body SET STORAGE EXTERNAL",
    "ALTER TABLE cases ALTER COLUMN trace SET STORAGE EXTERNAL",
)


def upgrade() -> None:
    """Make them."""
    for table in TABLES:
        op.execute(table)
