"""The standard tests that LangChain gives to every chat model."""

from langchain_core.language_models import BaseChatModel
from langchain_tests.unit_tests import ChatModelUnitTests

from serving.embedded.chat_model import EmbeddedChatModel
from tests.serving_embedded.cases import MODEL


class TestEmbeddedChatModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return EmbeddedChatModel

    @property
    def chat_model_params(self) -> dict[str, str]:
        return {"model_path": MODEL}
