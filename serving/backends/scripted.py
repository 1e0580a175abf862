"""A model that answers from a file of replies or from a function: for tests, demonstrations and dry runs.

`scripted:replies.jsonl` holds one reply a line: `{"reply": ..., "role": ..., "case": ..., "sample": ...}`.
`role`, `format`, `case` and `sample` are optional and narrow what the line answers; of the lines that fit,
the one that names most wins, then the earlier one. `"fail": "timeout"` instead of a reply raises that error
class.
`scripted:script.py:function` calls `function(call)` of a Python file, plain or async, for each sample.
`scripted:auto` makes up valid replies: the same prompt and sample always get the same one.
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

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serving.backends.backend import Backend, CallParameters, Server
from serving.backends.langchain_model import completer
from serving.errors import CallError, ErrorClass, ModelError
from serving.model_name import ModelName
from serving.numbered_lines import numbered_ids

HISTORY_LENGTH = 1000

_WORDS = ("made-up word", "invented name", "scripted entry", "drawn text", "no real answer")

CITED_ANSWER = "cited_answer"
"""The format of a reply in free text that has to cite lines of its prompt."""


class ScriptedCall(BaseModel):
    """One sample that the script is asked for.

    `format` names what is asked for where a role has several tasks: `answer`, `cited_answer`, `question`,
    `alignment`, `exact_answer`, `ideal_answer`.
    `schema_` is the reply's JSON schema, None for free text.
    """

    role: str = ""
    format: str = ""
    case_id: str = ""
    sample: int = 0
    prompt: list[tuple[str, str]]
    schema_: dict[str, Any] | None = None


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


class ScriptedChatModel(BaseChatModel):
    """A chat model that follows a script; `history` keeps the latest calls."""

    script: Script
    script_name: str = "script"
    history: deque[ScriptedCall] = Field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_model_name"] = kwargs.get("model", self.script_name)
        return params

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"script": self.script_name}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        texts = [self.script(call) for call in self._calls(messages, kwargs)]
        if any(inspect.isawaitable(text) for text in texts):
            raise TypeError(f"{self.script_name} is async: use the model's async methods")
        return self._result(messages, texts)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        texts = []
        for call in self._calls(messages, kwargs):
            text = self.script(call)
            texts.append(await text if inspect.isawaitable(text) else text)
        return self._result(messages, texts)

    def _calls(self, messages: Sequence[BaseMessage], kwargs: dict[str, Any]) -> list[ScriptedCall]:
        prompt = [(message.type, str(message.content)) for message in messages]
        calls = [
            ScriptedCall(
                role=kwargs.get("role", ""),
                format=kwargs.get("schema_name", ""),
                case_id=kwargs.get("case_id", ""),
                sample=sample,
                prompt=prompt,
                schema_=kwargs.get("schema"),
            )
            for sample in kwargs.get("samples", (0,))
        ]
        self.history.extend(calls)
        return calls

    def _result(self, messages: Sequence[BaseMessage], texts: Sequence[str]) -> ChatResult:
        prompt_words = sum(len(str(message.content).split()) for message in messages)
        generations = []
        for index, text in enumerate(texts):
            read, written = (prompt_words if index == 0 else 0), len(text.split())
            usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
            message = AIMessage(
                text,
                usage_metadata=usage,
                response_metadata={"finish_reason": "stop", "model_name": self.script_name},
            )
            generations.append(ChatGeneration(message=message, generation_info={"finish_reason": "stop"}))
        return ChatResult(generations=generations)


def connect_scripted(name: ModelName) -> Backend:
    """Load a script.

    Raises:
        ModelError: The file is missing or holds something else.
    """
    script, revision = _load(name.name)
    model = ScriptedChatModel(script=script, script_name=str(name))
    return Backend(
        name=name,
        servers=(scripted_server(model),),
        revision=revision,
        constraints=("json_schema",),
        # One by one, so that a script can let a single vote fail.
        many_samples=False,
        start_connections=64,
    )


def scripted_server(model: ScriptedChatModel) -> Server:
    """A script as the place where a model answers."""
    return Server("scripted", completer(model, _arguments))


def _arguments(call: CallParameters) -> dict[str, Any]:
    return {
        "role": call.role,
        "case_id": call.case_id,
        "samples": call.samples,
        "schema": call.schema,
        "schema_name": call.schema_name,
    }


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
        # A user's file can fail in any way; it is their line to mend.
        raise ModelError(f"{file}: {type(error).__name__}: {error}") from error
    if not callable(script):
        raise ModelError(f"{file}: {function} is no function")
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
    """A valid reply for any schema, drawn from a hash of the prompt and the sample."""
    seed = hashlib.sha256(json.dumps([call.prompt, call.sample]).encode()).digest()
    if call.schema_ is None and call.format == CITED_ANSWER:
        return _made_up_citations(call, seed)
    if call.schema_ is None:
        # Two sentences, as answers are to have, and fewer words than a question may have.
        return "These words were made up by a script. No language model wrote them."
    return json.dumps(_made_up_value(call.schema_, seed))


def _made_up_citations(call: ScriptedCall, seed: bytes) -> str:
    """Two sentences that each cite a numbered line of the prompt, as far as there are any."""
    ids = numbered_ids([text for _, text in call.prompt])
    texts = "These words were made up by a script.", "No language model wrote them."
    if not ids:
        return " ".join(texts)
    picks = (ids[seed[place] % len(ids)] for place in range(len(texts)))
    return "\n".join(f"{text} |{id_}|" for text, id_ in zip(texts, picks, strict=True))


def _made_up_value(schema: dict[str, Any], seed: bytes) -> Any:
    if "enum" in schema:
        options = schema["enum"]
        return options[int.from_bytes(seed[:4]) % len(options)]
    if schema.get("type") == "object":
        return {
            key: _made_up_value(value, hashlib.sha256(seed + key.encode()).digest())
            for key, value in schema.get("properties", {}).items()
        }
    if schema.get("type") == "array":
        return _made_up_items(schema, seed)
    raise CallError("internal", f"scripted:auto cannot make up a value for {json.dumps(schema)[:80]}")


def _made_up_items(schema: dict[str, Any], seed: bytes) -> list[Any]:
    options = schema["items"].get("enum")
    if options is None:
        drawn = [word for word in _WORDS if _drawn(seed, word)[0] % 2] or [_WORDS[0]]
        least = schema.get("minItems", 1)
        return [*drawn, *(f"{_WORDS[0]} {number}" for number in range(len(drawn), least))]
    if "maxItems" in schema:
        # As many as are asked for, in an order of their own.
        return sorted(options, key=lambda item: _drawn(seed, item))[: schema["maxItems"]]
    # Each one with even odds, so that votes differ.
    return [item for item in options if _drawn(seed, item)[0] % 2]


def _drawn(seed: bytes, item: object) -> bytes:
    return hashlib.sha256(seed + str(item).encode()).digest()
