"""Runs whose models answer in batches come to what the same runs come to online, and pay for no more."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from runs.record.manifest import BudgetCaps, RunStopped
from runs.upkeep.away import away_batches
from serving.protocol.batch_provider import BatchLimits, BatchState, NoSuchBatch, RowResult
from serving.protocol.budget import Price
from serving.protocol.errors import CallError
from serving.protocol.made_up_replies import made_up_text
from serving.protocol.messages import UNKNOWN, Answer
from tests.runs.batched.account import Account
from tests.runs.batched.conftest import MODEL, Runs

CALLS_OF_4_CASES = 32


def test_a_run_in_batches_ends_as_one_online_and_pays_for_as_many_calls(runs: Runs, account: Account) -> None:
    online = runs.start(model="scripted:auto", out="online")
    run = runs.start()
    assert run.manifest.status == "finished" and run.manifest.counts.done == 4
    assert runs.results() == runs.results("online")
    (one,), (other,) = run.manifest.sessions, online.manifest.sessions
    assert (one.calls, one.replayed) == (other.calls, 0) == (CALLS_OF_4_CASES, 0)
    assert set(account.paid.values()) == {1}
    # Intent and votes; reflections; the answer.
    assert [held.remote.requests for held in account.batches.values()] == [8, 12, 4]
    assert account.deleted == list(account.batches)
    assert runs.watcher.lines.count("batches: the account stores everything for ever") == 1


def test_no_batch_is_sent_after_a_first_round_without_usable_replies(
    runs: Runs, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def useless_intents(prompt: Any, sample: int, name: str, *rest: Any) -> str:
        return "no form at all" if name == "intent" else made_up_text(prompt, sample, name, *rest)

    monkeypatch.setattr("tests.runs.batched.account.made_up_text", useless_intents)
    run = runs.start(keep_going=False)
    assert (run.manifest.status, run.manifest.counts.total) == ("interrupted", 0)
    assert run.manifest.sessions[-1].stopped_by == (
        "every case so far is degraded (4 of 4): no usable reply to classify_intent in 4"
    )
    # Intents and votes; corrections of the intents and reflections.
    assert len(account.batches) == 2
    assert runs.resume(keep_going=True).manifest.status == "finished"
    assert set(account.paid.values()) == {1}


def test_limits_are_kept_and_results_stay_the_same(runs: Runs, account: Account) -> None:
    runs.start(model="scripted:auto", out="online")
    account.limits = BatchLimits(requests=3, bytes=10_000_000)
    runs.start()
    assert max(held.remote.requests or 0 for held in account.batches.values()) == 3
    assert runs.results() == runs.results("online")
    assert set(account.paid.values()) == {1}


def test_bytes_are_a_limit_too(runs: Runs, account: Account) -> None:
    account.limits = BatchLimits(requests=1000, bytes=9_000)
    runs.start()
    assert len(account.batches) > 6
    for held in account.batches.values():
        if len(held.rows) > 1:
            assert sum(len(account.encoded(row)) for row in held.rows) <= 9_000
    assert set(account.paid.values()) == {1}


def test_a_detached_run_goes_on_where_it_ended(runs: Runs, account: Account) -> None:
    account.looks = 1
    run = runs.start(detach=True)
    assert run.manifest.status == "interrupted" and run.manifest.counts.total == 0
    away = away_batches(run.path)
    assert (away.calls, [one.state for one in away.batches]) == (16, ["running"])
    assert away.batches[0].left == pytest.approx(24 * 3600, abs=600)
    for _ in range(8):
        run = runs.resume(detach=True)
    assert run.manifest.status == "finished" and run.manifest.counts.done == 4
    assert set(account.paid.values()) == {1}
    assert sum(session.calls for session in run.manifest.sessions) == CALLS_OF_4_CASES


def test_a_stop_leaves_a_batch_away_for_a_resume(runs: Runs, account: Account) -> None:
    account.looks, runs.watcher.stop_at = 1_000, "batch_0 submitted"
    run = runs.start()
    assert (run.manifest.status, away_batches(run.path).calls) == ("interrupted", 16)
    account.looks = 0
    assert runs.resume().manifest.status == "finished"
    assert set(account.paid.values()) == {1} and len(account.batches) == 3


def test_a_batch_that_was_made_without_an_answer_is_found_and_adopted(runs: Runs, account: Account) -> None:
    account.lose_answer = True
    run = runs.start()
    assert run.manifest.status == "finished"
    assert set(account.paid.values()) == {1} and len(account.batches) == 3


class _Killed(BaseException):
    """Ends a run between two lines. An interrupt would leave its tasks to the collector, in a later test."""


def test_an_intent_without_a_batch_is_taken_back(runs: Runs, account: Account) -> None:
    def die(_: object) -> None:
        raise _Killed

    account.on_submit = die
    with pytest.raises(_Killed):
        runs.start()
    account.on_submit = lambda _: None
    assert [one.state for one in away_batches(runs.folder / "run").batches] == ["intended"]
    assert runs.resume().manifest.status == "finished"
    assert set(account.paid.values()) == {1}
    assert any("were never submitted" in line for line in runs.watcher.lines)


def test_where_nothing_can_be_known_of_a_submit_the_run_stops(runs: Runs, account: Account) -> None:
    account.lose_answer = True
    account.hidden = True
    with pytest.raises(RunStopped, match="cannot be known"):
        runs.start()
    account.lose_answer = account.hidden = False
    assert runs.resume().manifest.status == "finished"
    assert set(account.paid.values()) == {1}


@pytest.mark.parametrize(
    ("end", "error_class"), [("expired", "timeout"), ("cancelled", "connection"), ("failed", "internal")]
)
def test_a_batch_that_comes_to_nothing_fails_its_cases_and_a_retry_asks_again(
    runs: Runs, account: Account, end: BatchState, error_class: str
) -> None:
    runs.start(model="scripted:auto", out="online")
    account.end = end
    account.results = lambda rows: []
    run = runs.start()
    assert run.manifest.counts.errors == {error_class: 4}
    assert away_batches(run.path).failures == {error_class: 16}
    account.end, account.results = "ended", lambda rows: rows
    # A resume leaves failed cases alone.
    assert runs.resume().manifest.counts.failed == 4
    run = runs.retry()
    assert run.manifest.counts.done == 4 and runs.results() == runs.results("online")
    assert set(account.paid.values()) == {1}


def test_a_batch_that_is_refused_for_now_is_submitted_again(runs: Runs, account: Account) -> None:
    def accept_the_second(_: object) -> None:
        account.end = "ended" if account.batches else "failed"

    account.error_class, account.on_submit = "rate_limit", accept_the_second
    run = runs.start(budget=BudgetCaps(max_tokens=25_000))
    assert (run.manifest.status, run.manifest.counts.done) == ("finished", 4)
    assert "batches: batch_0 was refused for now: ; 4 calls wait" in runs.watcher.lines
    assert set(account.paid.values()) == {1}


@pytest.mark.parametrize("method", ["submit", "mark"])
def test_calls_of_a_batch_that_is_not_taken_fail_and_give_their_budget_back(
    runs: Runs, account: Account, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    whole = getattr(Account, method)

    async def refuse(*given: Any) -> Any:
        monkeypatch.setattr(Account, method, whole)
        raise CallError("internal", "no room")

    monkeypatch.setattr(Account, method, refuse)
    # The cap has room for one case at a time.
    run = runs.start(budget=BudgetCaps(max_tokens=4_000))
    assert (run.manifest.counts.done, run.manifest.counts.errors) == (1, {"internal": 1})
    assert [line for line in runs.watcher.lines if line.endswith("no room; 4 calls of it failed")]
    assert away_batches(run.path).failures == {"internal": 4}
    runs.resume(budget=BudgetCaps(max_tokens=25_000))
    assert runs.retry().manifest.counts.done == 4 and set(account.paid.values()) == {1}


@pytest.mark.parametrize("error", [CallError("connection", "no route"), NoSuchBatch("batch_0", "openai")])
def test_files_that_cannot_be_deleted_are_deleted_at_the_next_look(
    runs: Runs, account: Account, monkeypatch: pytest.MonkeyPatch, error: CallError
) -> None:
    whole = Account.delete

    async def refuse(*_: object) -> None:
        monkeypatch.setattr(Account, "delete", whole)
        raise error

    monkeypatch.setattr(Account, "delete", refuse)
    run = runs.start()
    assert (run.manifest.status, set(account.paid.values())) == ("finished", {1})
    gone = isinstance(error, NoSuchBatch)
    assert sorted(account.deleted) == [*account.batches][1:] if gone else [*account.batches]
    told = [line for line in runs.watcher.lines if line.endswith("it is looked at again later")]
    assert len(told) == (0 if gone else 1)


def test_a_batch_that_may_be_ours_is_waited_for_and_not_sent_again(
    runs: Runs, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(_: Account, metadata: Any) -> Any:
        for held in [*account.batches.values()]:
            if metadata.items() <= held.remote.metadata.items():
                yield replace(held.remote, certain=held.remote.final)
                await account.look(held.remote.id)

    monkeypatch.setattr(Account, "found", found)
    account.lose_answer, account.looks = True, 1
    assert runs.start().manifest.status == "finished"
    assert "batches: batch_0 may be one of this run; it is known once it has ended" in runs.watcher.lines
    assert set(account.paid.values()) == {1} and len(account.batches) == 3


def test_a_harvest_is_stored_in_parts(runs: Runs, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.batches.desk._ROWS_A_COMMIT", 3)
    account.results = lambda rows: [*rows, rows[0]]
    run = runs.start()
    assert run.manifest.counts.done == 4
    assert away_batches(run.path).rows == {"answered": 24, "doubled": 3, "missing": 0}


def test_rows_that_fail_miss_double_or_are_foreign_end_one_way_or_another(
    runs: Runs, account: Account
) -> None:
    def spoil(rows: list[RowResult]) -> list[RowResult]:
        if len(account.batches) > 1:
            return rows
        answers = rows[2].answers
        other = RowResult(rows[2].custom_id, tuple(Answer("other", "stop", 1, 1) for _ in answers))
        failed = RowResult(rows[0].custom_id, failure=CallError("refusal", "no"))
        foreign = RowResult("nobody", answers)
        return [foreign, failed, failed, *reversed(rows[2:]), rows[3], other]

    account.results = spoil
    run = runs.start()
    rows = away_batches(run.path).rows
    assert (rows["foreign"], rows["failed"], rows["doubled"], rows["differing"]) == (1, 1, 2, 1)
    assert rows["missing"] >= 1
    account.results = lambda rows: rows
    runs.start(model="scripted:auto", out="online")
    run = runs.retry()
    assert run.manifest.counts.done == 4 and runs.results() == runs.results("online")


def test_samples_that_a_row_leaves_out_fail_and_tokens_that_nobody_counts_are_estimated(
    runs: Runs, account: Account
) -> None:
    def half(rows: list[RowResult]) -> list[RowResult]:
        return [
            replace(row, answers=tuple(Answer(one.text, "stop", UNKNOWN, UNKNOWN) for one in row.answers[:2]))
            for row in rows
        ]

    account.results = half
    run = runs.start(1)
    assert away_batches(run.path).failures == {"internal": 1}
    with closing(runs.journal()) as journal:
        (custom_id,) = (row.custom_id for row in account.batches["batch_2"].rows)
        assert (journal.batches.samples(custom_id), journal.batches.samples("ab" * 32)) == (1, 0)
    calls = [call for line in run.trace("k0") for call in line.get("calls", ()) if not call["fault"]]
    assert all(call["output_tokens"] > 0 for call in calls) and any(
        call["input_tokens"] > 50 for call in calls
    )


@pytest.mark.parametrize("back", [True, False])
def test_a_lost_batch_fails_and_is_not_paid_again_if_it_comes_back(
    runs: Runs, account: Account, *, back: bool
) -> None:
    account.looks = 1
    runs.start(detach=True)
    kept, account.batches = account.batches, {}
    run = runs.resume()
    assert run.manifest.counts.errors == {"internal": 4}
    assert any("another account" in line for line in runs.watcher.lines)
    account.batches = kept if back else {}
    assert runs.retry().manifest.counts.done == 4
    assert ("batch_0" in account.batches) is back and len(account.batches) == 3
    assert set(account.paid.values()) == {1}


def test_files_stay_where_the_user_wants_that(runs: Runs, account: Account) -> None:
    runs.start(keep_remote=True)
    assert account.deleted == []


def test_calls_in_batches_reserve_and_cost_half(runs: Runs, account: Account) -> None:
    prices = {"openai:m": Price(input=1_000_000, output=1_000_000)}
    run = runs.start(budget=BudgetCaps(prices=prices))
    tokens = run.manifest.total_tokens
    assert run.manifest.total_cost == pytest.approx(tokens / 2)
    stopped = runs.start(budget=BudgetCaps(max_tokens=2_000), out="small")
    assert stopped.manifest.status == "interrupted"
    assert 0 < stopped.manifest.total_tokens <= 2_000
    assert (stopped.manifest.sessions[0].stopped_by or "").startswith("budget of 2,000 tokens")
    more = runs.resume("small", budget=BudgetCaps(max_tokens=1_000_000))
    assert more.manifest.status == "finished" and runs.results("small") == runs.results()


def test_a_run_that_mixes_batches_and_online_roles_ends_under_a_cap(runs: Runs) -> None:
    # Within this cap the calls of one batch leave too little for the online calls of the other cases.
    mixed = runs.start(6, models=[f"label={MODEL}", "scripted:auto"], budget=BudgetCaps(max_tokens=13_000))
    assert mixed.manifest.status == "finished" and mixed.manifest.counts.done == 6
    assert mixed.manifest.total_tokens <= 13_000


def test_the_trace_names_what_came_from_batches(runs: Runs) -> None:
    run = runs.start(1)
    calls = [call for line in run.trace("k0") for call in line.get("calls", ())]
    assert {call["server"] for call in calls} == {"openai"} and not any(call["replayed"] for call in calls)
    assert json.loads((run.path / "run.json").read_text())["models"]["label"]["name"] == MODEL


def test_a_key_that_is_refused_for_a_batch_leaves_no_failed_call(runs: Runs, account: Account) -> None:
    def deny(_: object) -> None:
        raise CallError("auth", "Incorrect API key provided", status=401)

    account.on_submit = deny
    with pytest.raises(RunStopped, match="openai: access denied, check OPENAI_API_KEY: Incorrect"):
        runs.start()
    assert account.batches == {}
    assert away_batches(runs.folder / "run").failures == {}
    account.on_submit = lambda _: None
    run = runs.resume()
    assert (run.manifest.status, run.manifest.counts.done) == ("finished", 4)
    assert set(account.paid.values()) == {1}


@pytest.mark.parametrize("method", ["mark", "look", "results_of"])
def test_a_key_that_is_revoked_while_a_batch_is_away(
    runs: Runs, account: Account, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async def deny(*_: object) -> None:
        raise CallError("auth", "Incorrect API key provided", status=401)

    with monkeypatch.context() as revoked:
        revoked.setattr(Account, method, deny)
        with pytest.raises(RunStopped, match="check OPENAI_API_KEY"):
            runs.start()
    run = runs.resume()
    assert (run.manifest.status, run.manifest.counts.done) == ("finished", 4)
    assert set(account.paid.values()) == {1}
