import asyncio
import json
from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration

from serving.embedded.chat_format import ChatFormat
from serving.embedded.chat_model import EmbeddedChatModel
from serving.embedded.request import ContextLengthExceeded, Request
from serving.embedded.worker import worker_for
from tests.serving_embedded.cases import IDS, PROMPT, label_map
from weights.registry import WeightsError

FRANCE = [HumanMessage("What is the capital of France?")]


async def generations(
    model: EmbeddedChatModel, messages: Sequence[BaseMessage], **options: object
) -> list[ChatGeneration]:
    result = await model.agenerate([list(messages)], **options)  # type: ignore[arg-type]
    return [generation for generation in result.generations[0] if isinstance(generation, ChatGeneration)]


def message(generation: ChatGeneration) -> AIMessage:
    assert isinstance(generation.message, AIMessage)
    return generation.message


async def test_one_call_gives_several_replies_in_the_schema(model: EmbeddedChatModel) -> None:
    found = await generations(
        model,
        [HumanMessage(PROMPT)],
        n=3,
        response_schema=label_map(),
        temperature=0.7,
        max_tokens=200,
        seed=3,
    )
    assert [tuple(json.loads(generation.text)) for generation in found] == [IDS, IDS, IDS]
    assert [generation.generation_info for generation in found] == [{"finish_reason": "stop"}] * 3
    assert [message(generation).response_metadata["finish_reason"] for generation in found] == ["stop"] * 3


async def test_the_prompt_is_counted_once(model: EmbeddedChatModel) -> None:
    found = await generations(model, FRANCE, n=2, temperature=1.0)
    usages = [message(generation).usage_metadata for generation in found]
    assert usages[0] is not None and usages[1] is not None
    assert (usages[0]["input_tokens"], usages[1]["input_tokens"]) == (model.count_tokens(FRANCE), 0)
    assert min(usage["output_tokens"] for usage in usages if usage) > 0
    assert usages[0]["input_token_details"]["cache_read"] <= usages[0]["input_tokens"]


async def test_a_reply_can_be_asked_for_by_its_index(model: EmbeddedChatModel) -> None:
    both = await generations(model, [HumanMessage("Tell a story.")], n=2, temperature=1.0, max_tokens=2)
    second = await generations(
        model, [HumanMessage("Tell a story.")], sample_indices=[1], temperature=1.0, max_tokens=2
    )
    assert [generation.text for generation in second] == [both[1].text]


async def test_concurrent_calls_answer_as_each_alone(model: EmbeddedChatModel) -> None:
    other = [SystemMessage("You answer with one word."), HumanMessage("What colour is the sky?")]
    alone = [await generations(model, messages, max_tokens=5) for messages in (FRANCE, other)]
    together = await asyncio.gather(
        *(generations(model, messages, max_tokens=5) for messages in (FRANCE, other))
    )
    assert [found[0].text for found in together] == [found[0].text for found in alone]


async def test_a_follow_up_reads_the_cache(model: EmbeddedChatModel) -> None:
    opening = [SystemMessage("You label sentences."), HumanMessage(f"{PROMPT}\nThank you.")]
    options = {"response_schema": label_map(), "max_tokens": 200}
    (first,) = await generations(model, opening, **options)
    follow_up = [*opening, message(first), HumanMessage("Check your labels.")]
    (second,) = await generations(model, follow_up, **options)
    usages = message(first).usage_metadata, message(second).usage_metadata
    assert usages[0] is not None and usages[1] is not None
    assert usages[1]["input_token_details"]["cache_read"] > 0.8 * usages[0]["total_tokens"]


def test_the_synchronous_call_is_the_same(model: EmbeddedChatModel) -> None:
    assert model.invoke(FRANCE).text == "The capital of France is Paris."


async def test_too_long_a_prompt_is_refused_with_its_length(model: EmbeddedChatModel) -> None:
    assert model.context_length == 8192
    with pytest.raises(ContextLengthExceeded, match="8192"):
        await model.ainvoke([HumanMessage("word " * 9000)])


async def test_a_failure_reaches_its_caller_and_the_worker_goes_on(model: EmbeddedChatModel) -> None:
    def fail(chat: ChatFormat) -> Request:
        raise ZeroDivisionError("on purpose")

    failing = asyncio.wrap_future(worker_for(model.folder).submit(fail))
    found, failure = await asyncio.gather(
        model.ainvoke(FRANCE, max_tokens=3), failing, return_exceptions=True
    )
    assert isinstance(failure, ZeroDivisionError)
    assert isinstance(found, AIMessage)


async def test_a_failure_of_the_engine_reaches_everyone_who_waits(
    model: EmbeddedChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("on purpose")

    await model.ainvoke(FRANCE, max_tokens=1)
    with monkeypatch.context() as patch:
        patch.setattr("serving.embedded.causal_model.CausalModel.forward", broken)
        calls = (model.ainvoke(FRANCE), model.ainvoke([HumanMessage("Hello")]))
        failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(failure) for failure in failures] == [MemoryError, MemoryError]
    assert (await model.ainvoke(FRANCE, max_tokens=3)).text == "The capital of"


async def test_a_cancelled_call_is_dropped(model: EmbeddedChatModel) -> None:
    long = asyncio.create_task(model.ainvoke([HumanMessage("Tell a long story.")], max_tokens=4000))
    await asyncio.sleep(0.3)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    async with asyncio.timeout(120):
        await model.ainvoke(FRANCE, max_tokens=3)


async def test_messages_without_a_role_here_are_refused(model: EmbeddedChatModel) -> None:
    with pytest.raises(ValueError, match="tool"):
        await model.ainvoke([ToolMessage("4", tool_call_id="1")])
    with pytest.raises(ValueError, match="at least one"):
        await model.ainvoke(FRANCE, n=0)


async def test_weights_that_are_not_there_are_named() -> None:
    with pytest.raises(WeightsError, match="known are"):
        await EmbeddedChatModel(model_path="nothing").ainvoke(FRANCE)
