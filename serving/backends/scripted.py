"""A model that answers from a file of replies or from a function: for tests and for trying things out.

`scripted:replies.jsonl` holds one reply a line: `{"reply": ..., "role": ..., "case": ..., "sample": ...}`.
`role`, `format`, `case` and `sample` are optional and narrow the requests that the line answers; of matching
lines the most specific wins, then the earlier one. `"fail": "timeout"` instead of a reply raises that error
class. `scripted:script.py:function` calls `function(call)` of a Python file, plain or async, for each sample.
`scripted:auto` makes up valid replies: the same prompt and sample always get the same one.

Where one of several choices is asked for, a reply is one of them, or their probabilities:
`{"reply": {"Yes": 0.8, "No": 0.2}}`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from serving.backends.backend import Backend, Entry, Provider, Server
from serving.protocol.errors import CallError, ErrorClass, ModelError
from serving.protocol.made_up_replies import made_up_text
from serving.protocol.messages import Answer, TokenLogprob, weighed
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest

HISTORY_LENGTH = 1000

_ROLES = {"user": "human", "assistant": "ai"}
"""Scripts see the roles by LangChain's names."""


class ScriptedCall(BaseModel):
    """One sample that the script is asked for.

    `format` names the task if a role has several: `answer`, `cited_answer`, `question`,
    `alignment`, `exact_answer`, `ideal_answer`.
    `schema_` is the reply's JSON schema, None for free text. Of `choices` one is asked for.
    """

    role: str = ""
    format: str = ""
    case_id: str = ""
    sample: int = 0
    prompt: list[tuple[str, str]]
    schema_: dict[str, Any] | None = None
    choices: tuple[str, ...] = ()


class ScriptedReply(BaseModel):
    """One line of a file of replies."""

    model_config = ConfigDict(extra="forbid")

    reply: str | dict[str, Any] | None = None
    fail: ErrorClass | None = None
    role: str | None = None
    format: str | None = None
    case: str | None = None
    sample: int | None = None

    def fits(self, call: ScriptedCall) -> int:
        """How many of its conditions the call meets; -1 if it breaks one."""
        wanted = (
            (self.role, call.role),
            (self.format, call.format),
            (self.case, call.case_id),
            (self.sample, call.sample),
        )
        named = [(mine, its) for mine, its in wanted if mine is not None]
        return len(named) if all(mine == its for mine, its in named) else -1


Script = Callable[[ScriptedCall], Any]


class ScriptedModel:
    """Answers by a script; the `complete` of a server.

    Attributes:
        history: The latest calls.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.history: deque[ScriptedCall] = deque(maxlen=HISTORY_LENGTH)

    async def __call__(self, request: AnyRequest) -> list[Answer]:
        """The script's reply to each sample; a word counts as a token."""
        calls = [
            ScriptedCall(
                role=request.role,
                format=request.reply.name,
                case_id=request.case_id,
                sample=sample,
                prompt=[(_ROLES.get(one.role, one.role), one.text) for one in request.messages],
                schema_=request.schema,
                choices=request.choices,
            )
            for sample in request.samples
        ]
        self.history.extend(calls)
        prompt_words = sum(len(message.text.split()) for message in request.messages)
        answers = []
        for index, one in enumerate(calls):
            text = self._script(one)
            if inspect.isawaitable(text):
                text = await text
            read = prompt_words if index == 0 else 0
            token = _chosen(text, request.choices)
            if token is None:
                answers.append(Answer(text, "stop", read, len(text.split())))
            else:
                answers.append(Answer(token.token, "stop", read, 1, logprobs=(token,)))
        return answers


def _chosen(text: str, choices: Sequence[str]) -> TokenLogprob | None:
    """The choice that a reply is or weighs; None for other replies."""
    if text in choices:
        return weighed({text: 1.0})
    try:
        shares = json.loads(text) if choices else None
    except ValueError:
        return None
    if not isinstance(shares, dict) or not shares or not all(_is_share(value) for value in shares.values()):
        return None
    return weighed(shares) if any(shares.values()) else None


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def connect_scripted(name: ModelName) -> Backend:
    """Load a script.

    Raises:
        ModelError: The file is missing or holds something else.
    """
    script, revision = _load(name.name)
    return Backend(
        name=name,
        servers=(Server("scripted", ScriptedModel(script), connects=False),),
        revision=revision,
        constraints=("json_schema",),
        # One by one, so that a script can let a single vote fail.
        many_samples=False,
        scores_choices=True,
        start_connections=64,
    )


SCRIPTED = Provider(
    connect_scripted,
    lambda: [
        Entry("scripted:replies.jsonl", "ready", "replies from a file, no model"),
        Entry("scripted:script.py:function", "ready", "replies from a function, no model"),
        Entry("scripted:auto", "ready", "valid replies made up from a hash, no model"),
    ],
)


def _load(name: str) -> tuple[Script, str]:
    if name == "auto":
        return made_up_reply, "auto"
    path, _, function = name.partition(".py:")
    file = Path(f"{path}.py" if function else name)
    if not file.is_file():
        raise ModelError(f"model 'scripted:{name}': no such file {str(file)!r}; 'scripted:auto' needs none")
    revision = hashlib.sha256(file.read_bytes()).hexdigest()
    return (_load_function(file, function) if function else _load_replies(file)), revision


def _load_function(file: Path, function: str) -> Script:
    spec = importlib.util.spec_from_file_location(f"evigraph_script_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        # Dataclasses look their module up while it loads.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        script = getattr(module, function)
    except Exception as error:
        # A user's file can fail in any way.
        raise ModelError(f"{file}: {type(error).__name__}: {error}") from error
    if not callable(script):
        raise ModelError(f"{file}: {function} is not a function")
    return cast(Script, script)


def _load_replies(file: Path) -> Script:
    replies = []
    try:
        lines = file.read_text("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"{file}: not UTF-8: {error.reason} at byte {error.start}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = ScriptedReply.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ModelError(
                f"{file}: line {number}: {place + ': ' if place else ''}{first['msg']}"
            ) from None
        if (entry.reply is None) == (entry.fail is None):
            raise ModelError(f"{file}: line {number}: needs either 'reply' or 'fail'")
        replies.append(entry)

    def reply(call: ScriptedCall) -> str:
        fitting = [(entry.fits(call), entry) for entry in replies]
        best = max((fit for fit, _ in fitting), default=-1)
        if best < 0:
            place = f"role {call.role!r}, case {call.case_id!r}, sample {call.sample}"
            raise CallError("internal", f"{file} holds no reply for {place}")
        entry = next(entry for fit, entry in fitting if fit == best)
        if entry.fail is not None:
            raise CallError(entry.fail, f"{file} asks for this failure")
        return entry.reply if isinstance(entry.reply, str) else json.dumps(entry.reply)

    return reply


def made_up_reply(call: ScriptedCall) -> str:
    """A valid reply to any call: the script of `scripted:auto`."""
    return made_up_text(call.prompt, call.sample, call.format, call.schema_, call.choices)
