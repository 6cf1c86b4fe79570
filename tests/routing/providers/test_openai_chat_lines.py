"""Lines read many at a time say what each says by itself."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.answered import AnsweredRows
from routing.providers.base import ResultItem, RowResult
from routing.providers.openai.chat_lines import ChatLineReader
from routing.providers.openai.wire import read_line
from tests.harness.answers import one_by_one
from tests.routing.providers.lines_by_hand import COMPLETION, TOKEN, answered, body_of, never_ran, refused

GOOD = answered(200, COMPLETION)
SAID = {**COMPLETION, "choices": [{"index": 0, "message": {"role": "assistant", "content": "Río\u2028\u0085."}}]}
INCONSISTENT: dict[str, Any] = {**COMPLETION, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
INCONSISTENT["usage"]["prompt_tokens_details"] = {"cached_tokens": 5}
LINES = {
    "good": GOOD,
    "another row": GOOD.replace(b'r7"', b'r12"'),
    "foreign": GOOD.replace(TOKEN.encode(), b"somebody-else-00"),
    "separators": answered(200, SAID),
    "a raw CR": GOOD.replace(b'"object"', b'\r"object"'),
    "not UTF-8": GOOD.replace(b"Ebro", b"Ebr\xff"),
    "cut": GOOD[:-40],
    "no JSON inside": GOOD.replace(b'"index":0', b'"index":'),
    "an id behind the first": answered(200, COMPLETION).replace(b'"choices"', b'"id":"chatcmpl-theirs","choices"'),
    "an escape in the head": GOOD.replace(b'"batch_req_5f01"', b'"batch\\u0041"'),
    "an open text in the head": GOOD.replace(b'"batch_req_5f01"', b'"batch\\"'),
    "a text in the head that is not ended": GOOD[:12],
    "the rest of that line": GOOD[12:],
    "another end": GOOD.replace(b'"error":null', b'"error":{}'),
    "inconsistent": answered(200, INCONSISTENT),
    "no usage": answered(200, {**COMPLETION, "usage": None}),
    "refused": refused(400, "context_length_exceeded"),
    "never ran": never_ran("batch_expired"),
}


def exactly(line: bytes) -> ResultItem:
    return read_line(line, token=TOKEN, answer_prefix="ours-", result_ref="f", line=1)


def comparable(item: ResultItem) -> object:
    if not isinstance(item, RowResult):
        return item
    return msgspec.structs.replace(item, body=None), body_of(item)


@given(st.lists(st.sampled_from(sorted(LINES)), min_size=1, max_size=8))
def test_lines_read_together_say_what_each_says_alone_and_in_their_order(names: list[str]) -> None:
    lines = [LINES[name] for name in names]
    reads = ChatLineReader(token=TOKEN, answer_prefix="ours-").read(b"".join(line + b"\n" for line in lines))
    items: list[ResultItem] = []
    for read in reads:
        if isinstance(read, AnsweredRows):
            items += one_by_one([read], token=TOKEN)
        else:
            assert read == (len(items), lines[len(items)]), "a line that is not read is given by its place"
            items.append(exactly(read.text))
    assert [comparable(item) for item in items] == [comparable(exactly(line)) for line in lines]
    assert all(len((item.body or b"x").decode().splitlines()) == 1 for item in items if isinstance(item, RowResult))


def test_common_lines_are_read_without_the_exact_way() -> None:
    lines = [LINES["good"], LINES["another row"], LINES["separators"]]
    (read,) = ChatLineReader(token=TOKEN, answer_prefix="ours-").read(b"".join(line + b"\n" for line in lines))
    assert isinstance(read, AnsweredRows)
    assert read.rows.tolist() == [7, 12, 7]
    assert read.tokens.tolist() == [[14, 0, 0, 0, 5, 0]] * 3
