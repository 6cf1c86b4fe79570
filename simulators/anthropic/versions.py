"""The API versions, and what each takes of a request."""

from collections.abc import Mapping

from simulators.claude.parameters import Rules

OLD_VERSION = "2023-06-01"
NEW_VERSION = "2026-10-21"
RULES: Mapping[str, Rules] = {
    OLD_VERSION: Rules(own_members=frozenset({"model"}), required_texts={"model": None}),
    NEW_VERSION: Rules(
        own_members=frozenset({"model"}),
        required_texts={"model": None},
        sampling=False,
        assistant_documents=False,
        user_citations=False,
    ),
}
