"""Provider names and their adapters; nothing else imports an adapter.

An adapter brings its provider's SDK, which takes seconds to import, so each is imported when it is first used: the web,
beat and management commands need none.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from routing.providers.base import Deadlines, Provider, ProviderAccount

_DEADLINES = Deadlines()
_Adapter = Callable[[ProviderAccount, Deadlines], Provider]


def _openai() -> _Adapter:
    from routing.providers.openai.client import OpenAIProvider

    return OpenAIProvider


def _anthropic() -> _Adapter:
    from routing.providers.anthropic.client import AnthropicProvider

    return AnthropicProvider


def _bedrock() -> _Adapter:
    from routing.providers.bedrock.client import BedrockProvider

    return BedrockProvider


ADAPTERS: Mapping[str, Callable[[], _Adapter]] = MappingProxyType(
    {"openai": _openai, "anthropic": _anthropic, "bedrock": _bedrock}
)


def has_adapter(provider: str) -> bool:
    """Tell whether lanes of this provider can carry work."""
    return provider in ADAPTERS


def open_provider(account: ProviderAccount, deadlines: Deadlines = _DEADLINES) -> Provider:
    """Give the adapter of an account, to be used in a ``with``. Nothing is sent yet.

    Raises:
        KeyError: There is no adapter for ``account.provider``; ask :func:`has_adapter` before.
    """
    return ADAPTERS[account.provider]()(account, deadlines)


def import_adapters() -> None:
    """Import every adapter now: a process that forks others shares what it has imported with them."""
    for adapter in ADAPTERS.values():
        adapter()


def keeps_tokens(provider: str) -> bool:
    """Tell whether a provider's list names our token beside our jobs; a batch of Anthropic's has no place for it."""
    return provider != "anthropic"
