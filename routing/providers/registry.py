"""Provider names and their adapters; nothing else imports an adapter."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from routing.providers.anthropic.client import AnthropicProvider
from routing.providers.base import Deadlines, Provider, ProviderAccount
from routing.providers.bedrock.client import BedrockProvider
from routing.providers.openai.client import OpenAIProvider

_DEADLINES = Deadlines()

ADAPTERS: Mapping[str, Callable[[ProviderAccount, Deadlines], Provider]] = MappingProxyType(
    {"openai": OpenAIProvider, "anthropic": AnthropicProvider, "bedrock": BedrockProvider}
)


def has_adapter(provider: str) -> bool:
    """Tell whether lanes of this provider can carry work."""
    return provider in ADAPTERS


def open_provider(account: ProviderAccount, deadlines: Deadlines = _DEADLINES) -> Provider:
    """Give the adapter of an account, to be used in a ``with``. Nothing is sent yet.

    Raises:
        KeyError: There is no adapter for ``account.provider``; ask :func:`has_adapter` before.
    """
    return ADAPTERS[account.provider](account, deadlines)


def keeps_tokens(provider: str) -> bool:
    """Tell whether a provider's list names our token beside our jobs; a batch of Anthropic's has no place for it."""
    return provider != "anthropic"
