"""The independent tokenizer of every simulator: `bpe-openai` with two public vocabularies."""

import warnings
from collections.abc import Iterator

with warnings.catch_warnings():
    # It reads its tables through a deprecated call, on import and for each vocabulary.
    warnings.simplefilter("ignore", DeprecationWarning)
    import bpe_openai

    _ENCODINGS = {name: bpe_openai.get_encoding(name) for name in ("o200k_base", "cl100k_base")}

_MAX_CHARS_AT_ONCE = 400_000


def count_text(vocabulary: str, text: str) -> int:
    """How many tokens `text` has; no special tokens are read out of it."""
    encode = _ENCODINGS[vocabulary].encode_ordinary
    if len(text) <= _MAX_CHARS_AT_ONCE:
        return len(encode(text))
    return sum(len(encode(piece)) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """The text cut before blanks, where words and so tokens begin; the tokenizer refuses a million characters."""
    start = 0
    while start < len(text):
        end = start + _MAX_CHARS_AT_ONCE
        blank = text.rfind(" ", start + 1, end) if end < len(text) else -1
        end = blank if blank > start else end
        yield text[start:end]
        start = end
