from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.lines import gather_lines, is_one_line_each, one_line, split_lines

CHUNKS = st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\x00", b"\n")), max_size=12)


@given(CHUNKS)
def test_lines_are_those_of_the_whole_wherever_it_was_cut(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    assert [text for text, _ in split_lines(chunks, maximum_bytes=1_000)] == expected


@given(CHUNKS)
def test_of_a_line_over_the_bound_only_the_size_is_kept(chunks: list[bytes]) -> None:
    lines = list(split_lines(chunks, maximum_bytes=5))
    whole = list(split_lines(chunks, maximum_bytes=1_000))
    assert [size for _, size in lines] == [size for _, size in whole]
    assert [text for text, _ in lines] == [text if size <= 5 else b"" for text, size in whole]


@given(st.dictionaries(st.text(), st.text() | st.integers()))
def test_one_line_means_the_same_and_is_one_to_every_reader(document: dict[str, object]) -> None:
    line = one_line(msgspec.json.format(msgspec.json.encode(document)))
    assert msgspec.json.decode(line) == document
    assert len(line.decode().splitlines()) == 1


@given(CHUNKS)
def test_gathered_lines_are_the_same_and_a_long_one_is_alone(chunks: list[bytes]) -> None:
    gathered = list(gather_lines(chunks, maximum_bytes=5))
    assert all(isinstance(piece, int) or piece.endswith(b"\n") for piece in gathered)
    texts = [each for piece in gathered for each in ([b""] if isinstance(piece, int) else piece.split(b"\n")[:-1])]
    assert texts == [text for text, _ in split_lines(chunks, maximum_bytes=5)]
    assert all(piece > 5 for piece in gathered if isinstance(piece, int))


@given(st.lists(st.text(), max_size=4))
def test_lines_stay_as_they_are_exactly_when_each_does(texts: list[str]) -> None:
    lines = [text.replace("\n", "").encode() for text in texts]
    assert is_one_line_each(b"\n".join(lines)) == all(one_line(line) == line for line in lines)
