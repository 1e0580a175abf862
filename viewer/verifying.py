"""The page on which a run's answer is held against its note, sentence by sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from evals.verification.page import render
from evals.verification.report import Report
from evals.verification.texts import answer_and_note
from ranking.ranker import Ranker
from viewer.asking import demand_case, parameter
from viewer.guard import INLINE_STYLE_POLICY
from viewer.opened_run import OpenedRun
from viewer.served import ServedAddresses


class Verifying:
    """Finds the support of an answer when somebody asks for it.

    The ranker is loaded at the first question, in seconds: most readers never ask. Nothing is written.
    """

    def __init__(
        self, named: Callable[[str], OpenedRun], addresses: ServedAddresses, ranker: str = "support"
    ) -> None:
        """Serve pages of the runs that `named` knows, by the ranker of this name or folder."""
        self._named = named
        self._addresses = addresses
        self._name = ranker
        self._ranker: Ranker | None = None
        # One text at a time: more would share the processors and each take as long.
        self._lock = threading.Lock()

    def page(self, request: Request) -> Response:
        """The page of one answer.

        Raises:
            InputError: The case has no answer, or its file has moved.
            RankerError, WeightsError: The ranker cannot be used.
        """
        run, case_id = request.path_params["run"], parameter(request, "id")
        with self._named(run).reading() as reading:
            demand_case(reading, case_id)
            answer, case = reading.line(case_id).get("answer"), reading.case(case_id)
        lines, source = answer_and_note(run, case_id, answer, case)
        with self._lock:
            report = self._report(f"answer of run {run}", lines, source.name, source.ids, source.sentences)
        return HTMLResponse(
            render(report, back=self._addresses.case(run, case_id)),
            headers={"content-security-policy": INLINE_STYLE_POLICY},
        )

    def _report(
        self, note: str, lines: tuple[str, ...], source: str, ids: tuple[str, ...], sentences: tuple[str, ...]
    ) -> Report:
        # These import torch.
        from ranking.load import load_ranker
        from ranking.source_vectors import with_source
        from ranking.verify import verify

        if self._ranker is None:
            self._ranker = load_ranker(self._name)
        ranker, _ = with_source(self._ranker, sentences, None)
        return Report(
            note=note,
            source=source,
            ids=ids,
            ranker=ranker.identity,
            verification=verify(ranker, lines, sentences),
            source_encoded=None,
        )
