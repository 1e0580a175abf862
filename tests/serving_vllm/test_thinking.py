"""With vLLM itself and small weights that think for a sentence before they reply.

EVIGRAPH_TEST_VLLM_PYTHON=.venv-vllm/bin/python pytest -m vllm tests/serving_vllm/test_thinking.py
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from runs.execute.assemble import close_backends
from serving.backends import Backend, connect
from serving.backends.backend import exchange
from serving.journal.journal import Journal
from serving.protocol.messages import Answer, Message
from serving.protocol.model_name import parse_model_name
from serving.protocol.request import Reply, Request
from serving.requests.client import ModelClient
from serving.requests.probe import probe
from serving.vllm_server.find import Installation
from serving.vllm_server.server import VllmServer, free_port, start_server
from serving.vllm_server.spec import plan_server
from tests.serving.asks import WORD, as_sent
from weights.registry import model_dir

pytestmark = pytest.mark.vllm

YES_OR_NO = (Message("user", "Was the drug stopped? Answer in JSON."),)
OPEN = (Message("user", "What is furosemide used for? Answer in one sentence."),)
"""The small weights end their thinking on these two, at temperature 0, with a full stop."""

LONG_ENOUGH = 60
CUTS_THINKING = 3
CONTEXT = 4096
"""Small weights may think in circles: the context bounds their widest reply."""


@pytest.fixture(scope="module")
def thinking_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the small weights with the tokens that vLLM's reasoning parsers look for.

    The end of thinking has the output row of a full stop, slightly enlarged, so that it is written in its
    place; it is read as a colon, so that a reply follows. The chat template opens the thinking.
    """
    import torch
    from transformers import AddedToken, AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("weights") / "thinker"
    source = model_dir("smollm2-135m")
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    word, colon, stop = (tokenizer.encode(text)[0] for text in ("Answer", ":", "."))
    tokenizer.add_tokens([AddedToken(tag, special=False) for tag in ("<think>", "</think>")])
    opens, closes = (tokenizer.convert_tokens_to_ids(tag) for tag in ("<think>", "</think>"))
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    read = model.state_dict()["model.embed_tokens.weight"]
    written = read.clone()
    read[opens], written[opens] = read[word], 0
    read[closes], written[closes] = read[colon], 1.05 * written[stop]
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(written)
    begin = "<|im_start|>assistant\n"
    assert begin in tokenizer.chat_template
    tokenizer.chat_template = tokenizer.chat_template.replace(begin, f"{begin}<think>\nThe")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["with a parser", "without"])
def server(
    request: pytest.FixtureRequest, installation: Installation, thinking_weights: Path
) -> Iterator[VllmServer]:
    parser = ("--reasoning-parser", "deepseek_r1") if request.param == "with a parser" else ()
    spec = plan_server(
        installation, str(thinking_weights), free_port(), name="thinker", max_model_len=CONTEXT, extra=parser
    )
    with start_server(spec, lambda _: None) as server:
        yield server


@pytest.fixture
def has_parser(server: VllmServer) -> bool:
    return bool(server.spec.extra)


@pytest.fixture
async def backend(server: VllmServer) -> AsyncIterator[Backend]:
    backend = connect(parse_model_name(server.model_string))
    yield backend
    await close_backends([backend])


@pytest.fixture
async def client(backend: Backend, tmp_path: Path) -> AsyncIterator[ModelClient]:
    journal = Journal(tmp_path / "calls.sqlite")
    client = ModelClient({"label": backend}, journal)
    yield client
    await client.aclose()
    journal.close()


def question(max_tokens: int) -> Request[str]:
    return Request("label", "7", YES_OR_NO, WORD, (0,), temperature=0, max_tokens=max_tokens)


async def prose(backend: Backend, max_tokens: int) -> Answer:
    call = as_sent(messages=OPEN, max_tokens=max_tokens)
    (answer,) = await exchange(backend.servers[0], call, limit_s=120, retries=0)
    return answer


async def test_the_template_tells_of_thinking_before_the_first_request(backend: Backend) -> None:
    assert backend.describe is not None
    await backend.describe()
    assert backend.abilities.thinks


async def test_the_probe_sees_the_thinking(backend: Backend) -> None:
    _, findings = await probe(backend, takes_seed=False)
    assert findings.thinks and findings.thinking_tokens
    assert not findings.logprobs


async def test_a_schema_binds_the_reply_and_not_the_thinking(client: ModelClient, has_parser: bool) -> None:
    (reply,) = await client.ask(question(LONG_ENOUGH))
    assert isinstance(reply, Reply) and reply.value in ("yes", "no")
    # Without a parser the grammar binds the first token, so that the model cannot think.
    assert (reply.calls[0].thinking_tokens > 0) == has_parser


async def test_thinking_that_uses_up_the_limit_widens_it_once(client: ModelClient, has_parser: bool) -> None:
    if not has_parser:
        pytest.skip("without a parser a schema leaves no room for thinking")
    (reply,) = await client.ask(question(CUTS_THINKING))
    assert isinstance(reply, Reply) and reply.value in ("yes", "no")
    assert [call.widened for call in reply.calls] == [False, True]


async def test_thinking_is_not_part_of_a_reply_in_prose(backend: Backend) -> None:
    answer = await prose(backend, LONG_ENOUGH)
    assert "think>" not in answer.text
    assert answer.thinking and answer.thinking_tokens > 0


async def test_a_reply_in_prose_that_is_cut_while_thinking_has_no_text(
    backend: Backend, has_parser: bool
) -> None:
    if not has_parser:
        pytest.skip("the template opens the thinking, so nothing in the text tells it from a reply")
    answer = await prose(backend, CUTS_THINKING)
    assert answer.is_unwritten and answer.thinking
