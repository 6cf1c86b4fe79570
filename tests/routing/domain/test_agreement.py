"""The fast path and the exact path accept and refuse the same files, and give the same table."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.domain.records import Endpoint
from ground.errors import RowErrors
from routing.domain import asks
from routing.domain.estimate.tables import vocabulary_named
from routing.domain.estimate.tokens import RowTokens
from routing.domain.estimate.weights import RowLiterals, prepare_texts, weigh_rows
from routing.domain.jsonl import exact, fast, known
from routing.domain.jsonl.checks import check_body, check_custom_id, check_envelope, choice_count, output_limit_tokens
from routing.domain.jsonl.compiled import KNOWN, MODULE_PATH, Machine, borrowed_machine
from routing.domain.jsonl.known import KnownTable
from routing.domain.jsonl.lines import Lines, split_lines
from routing.domain.jsonl.table import FileLimits, RowTable
from routing.domain.jsonl.texts import counted_body
from routing.domain.parameters.needs import NeedCount, each_alone, gather_needs
from routing.domain.parameters.table import Need
from routing.domain.quoting import file_of, group_rows, read_table
from routing.domain.resolve import resolve_model
from tests.routing.domain.sample import AT, HOUSE, jsonl, row

ANY_MODEL = replace(
    HOUSE,
    models={name: replace(model, endpoints=frozenset(Endpoint)) for name, model in HOUSE.models.items()},
)
LIMITS = FileLimits(maximum_rows=50, maximum_row_bytes=20_000)


def slow_says(body: bytes) -> str | None:
    """The first code of the exact path, None for a good file."""
    try:
        exact.report_errors(body, LIMITS, lambda _name, _endpoint: None)
    except RowErrors as error:
        return error.code
    return None


def fast_table(body: bytes) -> RowTable | None:
    try:
        return fast.read_rows(body, LIMITS)
    except fast.Trouble:
        return None


def plain_needs(lines: Lines) -> dict[Need, NeedCount]:
    return gather_needs(each_alone([asks.decode_body(lines.text(index)) for index in range(len(lines))]))


def assert_agreement(body: bytes) -> None:
    table, code = fast_table(body), slow_says(body)
    assert (table is None) == (code is not None), (code, body)
    if table is not None:
        assert_same_as_plain(table, body)
    assert_compiled_agrees(body, table)


def assert_compiled_agrees(body: bytes, table: RowTable | None) -> int:
    """Give how many rows the compiled pass knew. What an earlier file left behind the body must change nothing."""
    with borrowed_machine() as machine:
        machine._bytes[machine._body_begin :] = ord('"')
        compiled = known.read_rows(body, LIMITS, machine)
        if compiled is None:
            return 0
        assert table is not None, ("the compiled pass takes what the others refuse", body)
        assert_same_tables(compiled, table)
        return int((compiled.columns["flags"] & KNOWN).sum())


def assert_same_tables(compiled: KnownTable, table: RowTable) -> None:
    """Hold the compiled pass to the plain fast path, its slow twin, in everything that a quote is made of."""
    assert compiled.endpoint is table.endpoint
    assert compiled.custom_ids == table.custom_ids
    assert compiled.model_names == table.model_names
    for name in ("offsets", "lengths", "lines", "model_indexes"):
        assert getattr(compiled, name).tolist() == getattr(table, name).tolist(), name
    models = {name: resolve_model(ANY_MODEL, "gpt-4o", table.endpoint, AT) for name in table.model_names}
    groups = group_rows(table, models)
    files = [file_of(compiled.body, each, groups) for each in (compiled, table)]
    counted, plain = (file.tokens_of(groups.models[0], 0, groups.rows_of(0)) for file in files)
    for column in fields(RowTokens):
        assert getattr(counted, column.name).tolist() == getattr(plain, column.name).tolist(), column.name
    if table.endpoint is Endpoint.CHAT_COMPLETIONS:
        asked = [gather_needs(file.asks_of(groups.rows_of(0))) for file in files]
        assert asked[0] == asked[1]


def spelled(texts: list[str]) -> bytes:
    """The slow twin of preparing: a row's texts as they are weighed, padded to pairs."""
    row = b"".join(b"\0" + re.sub('["\\\\\b\f\n\r\t]', "\0\\g<0>", text).encode() + b"\0" for text in texts)
    return row + b"\0" * (len(row) % 2)


def assert_same_as_plain(table: RowTable, body: bytes) -> None:
    """The slow twin: every row read to the letter, one by one."""
    lines = split_lines(body)
    endpoint = None
    lies_at = np.argsort(np.argsort(table.model_indexes, kind="stable"), kind="stable").tolist()
    for index in range(len(lines)):
        decoded = exact.decode_line(lines.text(index))
        endpoint = check_envelope(decoded, endpoint)
        inner = check_body(decoded, endpoint)
        counted = counted_body(inner, endpoint)
        assert table.custom_ids[index] == check_custom_id(decoded)
        assert table.model_names[table.model_indexes[index]] == inner["model"]
        assert table.message_counts[index] == counted.message_count
        assert table.limits[index] == output_limit_tokens(inner, endpoint)
        assert table.choices[index] == choice_count(inner, endpoint)
        begin = int(table.texts.starts[lies_at[index]])
        plain = spelled([orjson.loads(literal) for literal in counted.literals])
        assert table.texts.pairs[begin : begin + len(plain) // 2].tobytes() == plain
        text_bytes = sum(len(orjson.loads(literal).encode()) for literal in counted.literals)
        assert table.texts.text_bytes[lies_at[index]] == text_bytes
        extras = table.extras.get(index)
        assert (extras.images if extras else ()) == (counted.extras.images if counted.extras else ())
        assert (extras.tools if extras else ()) == (counted.extras.tools if counted.extras else ())
    if endpoint is Endpoint.CHAT_COMPLETIONS:
        asked = gather_needs(each_alone(asks.bodies_of(body, table, np.arange(len(table)))))
        assert asked == plain_needs(lines)


SEEDS = [
    jsonl(
        row("a", temperature=0, messages=[{"role": role, "content": "x"} for role in ("user", "system", "assistant")]),
        row("b", temperature=1.5, messages=[{"role": "system", "content": "\u2003"}]),
        row("c", temperature=None, messages=[{"role": "user", "content": " x"}, {"role": "tool", "content": ""}]),
        row("d", temperature=1, messages=[{"role": "user", "content": "x", "name": "n"}]),
    ),
    jsonl(row("a"), row("b", temperature=0.5), row("c", n=3, top_p=1, seed=7, stop=["x"], user="u")),
    jsonl(row("a", messages=[{"role": "system", "content": "s"}, {"role": "user", "content": 'a\n"b"\\ é 😀'}])),
    jsonl(
        row(
            "t",
            tools=[{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "x"}}}}}],
            response_format={"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}},
        )
    ),
    jsonl(
        row(
            "i",
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "hi"},
                        {"type": "image_url", "image_url": {"url": "https://a.b/c.png", "detail": "low"}},
                    ],
                }
            ],
        )
    ),
    jsonl(
        row(
            "h",
            messages=[
                {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
            ],
        )
    ),
    jsonl(row("r", url="/v1/responses", input=[{"role": "user", "content": [{"type": "input_text", "text": "q"}]}])),
    jsonl(row("e", url="/v1/embeddings", input=["one", "two"]), row("f", url="/v1/embeddings", input=[[1, 2], [3]])),
    orjson.dumps(row("only")),
    jsonl(row("r", url="/v1/responses", input="one", instructions="two", max_output_tokens=9, top_p=0.5)),
    jsonl(
        row(
            "r",
            url="/v1/responses",
            input=[{"role": "user", "content": "q", "type": "message"}, {"role": "assistant", "content": "a"}],
            text={"format": {"type": "json_schema", "name": "s", "schema": {}}},
        )
    ),
    jsonl(row("e", url="/v1/embeddings", input="one", dimensions=5), row("f", url="/v1/embeddings", input=["a", "b"])),
    jsonl(row("a", user="u", metadata={"k": "v"}, max_completion_tokens=5, max_tokens=None), row("b", stream=False)),
]
PIECES = [
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"\r", b"\r\n", b"\t", b"\0", b"\x0c", b"\xff",
    b"\xc3\xa9", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\u", b"\\ud83d", b"\\ude00", b"\\u0000", b"\\n",
    b'\\"', b"null", b"true", b"false", b"NaN", b"0", b"1", b"-1", b"1.0", b"1e999", b"01", b"99999999999999999999999",
    b'"model":"x",', b'"n":2,', b'"":0,', b'"custom_id":"z",', b'"role":"user",', b'"content":"",', b'"name":"n",',
    b'"stream":true,', b'"max_tokens":7,', b'"max_completion_tokens":7,', b'"temperature":9,', b'"m\\u006fdel":"y",',
    b'"instructions":["a"],', b'"input":[[{"type":"text","text":"t"}]],', b'"user":"\\ud800",',
    b'"role":"user","role":"user",', b'"metadata":{"a":1,"a":2},', b'"tool_calls":[],', b"\\u0022",
    b'"tools":null,', b'"response_format":[],',
    b'"stream":false,', b"[[[[", b"]]]]", b"[" * 120 + b"]" * 120, b'"x":[],', b'" :', b'{"a":1}', b'"audio":{},',
]  # fmt: skip


def mutated(random_source: random.Random, seeds: list[bytes]) -> bytes:
    body = bytearray(random_source.choice(seeds))
    if random_source.random() < 0.3:
        body = bytearray(bytes(body).replace(b'":', b'": ').replace(b',"', b', "'))
    for _ in range(random_source.choice((1, 1, 1, 2, 3))):
        position = random_source.randrange(len(body) + 1)
        action = random_source.random()
        if action < 0.55:
            if random_source.random() < 0.5:
                names = [index for index, code in enumerate(body) if code in b"{,"]
                position = random_source.choice(names) + 1 if names else position
            body[position:position] = random_source.choice(PIECES)
        elif action < 0.75:
            del body[position : position + random_source.choice((1, 1, 2, 5, 40))]
        elif action < 0.9:
            end = min(len(body), position + random_source.choice((1, 8, 30)))
            body[position:position] = body[position:end]
        elif position < len(body):
            body[position] = random_source.randrange(256)
    return bytes(body)


def test_mutated_files_get_the_same_verdict_on_both_paths() -> None:
    random_source = random.Random(20_260_301)
    accepted = 0
    for _ in range(5_000):
        body = mutated(random_source, SEEDS)
        assert_agreement(body)
        accepted += slow_says(body) is None
    assert 500 < accepted < 4_500


PNG = (
    "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\0\0\0\3\0" + b"\0" * 90).decode()
)
LONG_HEADED = PNG.replace(";base64", f";x={'x' * 1_100};base64")


def image(url: str, **other: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **other}}


# rows of the shapes that the compiled pass knows, each text at another distance from where 16 bytes are read at once
KNOWN_SEEDS = [
    jsonl(*(row(f"{'i' * shift}{shift}", max_tokens=shift + 1) for shift in range(17))),
    jsonl(
        row(
            "a", temperature=0.25, messages=[{"role": "system", "content": "é" * 9}, {"content": "a/b", "role": "user"}]
        ),
        row("b", temperature=2, n=3, seed=7, top_p=0.5, messages=[{"role": "user", "content": 'x\n"\t\b😀\x7f'}]),
        row("c", model="gpt-4o", stream=False),
        row("d", tools=[{"type": "function", "function": {"name": "f"}}]),
    ),
    json.dumps(row("e", messages=[{"role": "tool", "content": 'é😀 a/b"\\\0'}])).replace("a/b", "a\\/b").encode()
    + b"\r\n\n"
    + json.dumps(row("f", messages=[{"role": "user", "content": ""}])).encode(),
    jsonl(
        row("r", url="/v1/responses", instructions="be brief", input="one", max_output_tokens=9),
        row("s", url="/v1/responses", input=[{"role": "user", "content": "q", "type": "message"}], temperature=0),
    ),
    jsonl(
        row("v", url="/v1/embeddings", input="x"),
        row("w", url="/v1/embeddings", input="straße"),
        row("v" * 512, url="/v1/embeddings", input="y"),
    ),
    jsonl(
        row(
            "t",
            tools=[{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "x"}}}}}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "é\n", "schema": {"type": ["object", 1.5]}},
            },
            tool_choice="auto",
        ),
        row("u", response_format={"type": "json_object"}, stop=["\n"], user="u", metadata={}, store=None, n=None),
        row(
            "x", messages=[{"role": "user", "content": [{"type": "text", "text": "é\n"}, {"text": "", "type": "text"}]}]
        ),
        row("y", max_tokens=None, temperature=None, presence_penalty=-0.5, frequency_penalty=2, seed=-12, stream=None),
    ),
    jsonl(
        row(
            "z",
            url="/v1/responses",
            input=[{"role": "user", "content": "q"}],
            text={"format": {"type": "json_schema", "name": "s", "schema": {}}},
            tools=[{"type": "function", "name": "f", "parameters": {}}],
        ),
        row("z2", url="/v1/responses", input="q", text={"format": {"type": "text"}}, instructions="i", store=True),
        row("z3", url="/v1/responses", input=[{"role": "user", "content": [{"type": "text", "text": "q"}]}]),
    ),
    jsonl(
        row("i", messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, image("https://a.b/c.png")]}]),
        row("j", messages=[{"role": "user", "content": [image(PNG, detail="low"), image(PNG, detail="auto")]}]),
        row("k", messages=[{"role": "user", "content": [image(LONG_HEADED)]}], tools=[{"type": "function"}]),
    ),
    jsonl(row("m"), row("n")).replace(b"max_tokens", b"max_completion_tokens"),
]


def test_mutated_rows_of_known_shapes_read_the_same_compiled_and_plain() -> None:
    random_source = random.Random(20_261_130)
    known_count = refused = 0
    for seed in KNOWN_SEEDS:
        assert assert_compiled_agrees(seed, fast_table(seed)) >= 2, seed
    for _ in range(7_000):
        body = mutated(random_source, KNOWN_SEEDS)
        table = fast_table(body)
        known_count += assert_compiled_agrees(body, table)
        refused += table is None
    assert known_count > 3_000
    assert refused > 1_000


def test_every_piece_in_every_gap_of_a_row_gets_the_same_verdict() -> None:
    for seed in SEEDS[:4]:
        gaps = [index + 1 for index, code in enumerate(seed) if code in b'{,:["}']
        for piece in PIECES:
            for gap in gaps[::4]:
                assert_agreement(seed[:gap] + piece + seed[gap:])


def test_no_value_may_nest_deeper_than_its_line_may_on_both_paths() -> None:
    """A line nests to 100; of that a parameter's own value has 98, and one in a parameter nobody knows as many."""
    for name in ("store", "tool_choice", "unheard_of"):
        given: dict[str, Any] = {name: 7}
        for depth, code in ((98, None), (99, "too_deep"), (100, "too_deep")):
            for value in (b"[" * depth + b"]" * depth, b'{"":' * depth + b"0" + b"}" * depth):
                body = jsonl(row("a"), row("b", **given), row("c")).replace(b":7}", b":" + value + b"}")
                assert slow_says(body) == code
                assert_agreement(body)


def test_a_number_beyond_every_double_is_refused_wherever_it_stands() -> None:
    """The largest double is just below 1.8e308; https://json.org sets no bound."""
    for number, code in (
        *((number, "invalid_value") for number in (b"1.8e308", b"-1E999", b"9" * 309, b"9" * 5_000)),
        *((number, None) for number in (b"1.7e308", b"1e-400", b"9" * 308, b"0.%s" % (b"9" * 400))),
    ):
        for name in ("stop", "metadata", "tools", "unheard_of"):
            value = b'[{"type":"function","function":{"maximum":%s}}]' % number if name == "tools" else number
            given: dict[str, Any] = {name: 7}
            for rows in ([row("a", **given), row("b")], [row("a"), row("b"), row("c", **given)]):
                body = jsonl(*rows).replace(b":7}", b":" + value + b"}")
                assert slow_says(body) == code
                assert_agreement(body)


class _Lost(Machine):
    """A machine that is told to lay rows where its memory has none."""

    def _lay_out(self, *rooms: int) -> None:
        super()._lay_out(*rooms)
        self._file()["rows"] = 2**32 - 64


def test_a_pass_that_went_wrong_leaves_the_file_to_the_plain_way() -> None:
    body = jsonl(row("a"), row("b"))
    lost = _Lost()
    assert isinstance(read_table(body, LIMITS, lost), RowTable)
    assert not lost.is_sound


def test_names_that_end_about_a_block_of_16_bytes_read_alike() -> None:
    for size in (7, 8, 15, 16, 17, 31, 32, 33):
        for last in ("a", "é", "\\u00e9", '\\"', "\x01"):
            for name in ("x" * (size - 1) + last, "x" * size):
                assert_agreement(jsonl(row("FIRST"), row("b")).replace(b"FIRST", name.encode()))


def test_damaged_files_in_four_threads_at_once_read_as_they_do_one_by_one() -> None:
    source, whole = random.Random(16), jsonl(*(row(f"row-{index}", temperature=0.5) for index in range(8)))

    def damaged() -> bytes:
        body, place = bytearray(whole), source.randrange(len(whole))
        body[place : place + source.choice((0, 1, 9))] = source.choice((b'"', b"\\", b"\n", b"\xe9", b"{", b"]", b""))
        return bytes(body)

    def seen(body: bytes) -> tuple[bytes, tuple[str, ...], str] | None:
        with borrowed_machine() as machine:
            found = machine.read(body, maximum_rows=50)
        return None if found is None else (found.columns.tobytes(), found.model_names, repr(found.patterns))

    bodies = [damaged() for _ in range(400)]
    alone = [*map(seen, bodies)]
    assert len({*alone}) > 50
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(seen, bodies)] == alone


def test_the_compiled_pass_is_made_of_the_source_beside_it() -> None:
    folder = MODULE_PATH.parent.parent
    for listed in (MODULE_PATH.parent / "rows.sha256").read_text().splitlines():
        digest, name = listed.split()
        content = (folder / name.removeprefix("routing/domain/")).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, "run `make rows`"


def test_repeated_ids_and_too_many_rows_go_the_plain_way_and_many_models_partly() -> None:
    ids = [row(f"{index:07d}") for index in range(50)]
    with borrowed_machine() as machine:
        assert known.read_rows(jsonl(*ids), LIMITS, machine) is not None
        assert known.read_rows(jsonl(*ids[:49], row("0000007")), LIMITS, machine) is None
        assert known.read_rows(jsonl(*ids, row("more")), LIMITS, machine) is None
        models = [row(str(index), model=f"m-{index}") for index in range(50)]
        assert known.read_rows(jsonl(*models), FileLimits(maximum_rows=200), machine) is not None
        models += [row(f"n{index}", model=f"n-{index}") for index in range(50)]
        assert known.read_rows(jsonl(*models), FileLimits(maximum_rows=200), machine) is not None
    assert_compiled_agrees(jsonl(*models[:50]), fast_table(jsonl(*models[:50])))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
known_names = st.sampled_from(
    ["model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop", "tools", "stream",
     "response_format", "input", "instructions", "functions", "seed", "user", "web_search_options", "modalities"]
)  # fmt: skip
contents = st.text(max_size=30) | st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}, optional={"x": json_values}),
    max_size=3,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "tool"]), "content": contents},
        optional={"name": st.text(max_size=5), "x": json_values},
    ),
    max_size=4,
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    ending = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \t\n"]))
    rows = []
    for index in range(draw(st.integers(1, 4))):
        item: dict[str, Any] = row(str(index), messages=draw(messages))
        item["body"].update(draw(st.dictionaries(known_names, json_values, max_size=1)))
        if draw(st.integers(0, 9)) == 0:
            item[draw(st.text(max_size=3) | st.sampled_from(["url", "method", "custom_id", "body"]))] = draw(
                json_values
            )
        rows.append(json.dumps(item, ensure_ascii=draw(st.booleans())).encode())
    return ending.join(rows) + draw(st.sampled_from([b"", ending]))


@given(files())
@settings(max_examples=400, deadline=None)
def test_generated_files_get_the_same_verdict_on_both_paths(body: bytes) -> None:
    assert_agreement(body)


@given(st.lists(st.lists(st.text(max_size=40), max_size=3), min_size=1, max_size=6), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_strings_are_spelled_as_plain_python_spells_them(
    rows: list[list[str]],
    ensure_ascii: bool,  # noqa: FBT001 -- drawn
    escaped_slash: bool,  # noqa: FBT001 -- drawn
) -> None:
    literals = [[json.dumps(text, ensure_ascii=ensure_ascii).encode() for text in texts] for texts in rows]
    if escaped_slash:
        literals = [[literal.replace(b"/", rb"\/") for literal in texts] for texts in literals]
    order = np.arange(len(rows))[::-1]
    texts = prepare_texts(RowLiterals.of(literals), order)
    for place, index in enumerate(order.tolist()):
        begin, plain = int(texts.starts[place]), spelled(rows[index])
        assert texts.pairs[begin : begin + len(plain) // 2].tobytes() == plain
        assert texts.text_bytes[place] == sum(len(text.encode()) for text in rows[index])


def plain_sums(rows: list[list[str]], weights: list[int]) -> list[int]:
    """The slow twin of weighing."""
    codes = map(spelled, rows)
    return [sum(weights[first + 256 * second] for first, second in pairwise(row)) for row in codes]


@given(st.lists(st.lists(st.text(max_size=40), max_size=3), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_rows_weigh_what_plain_python_adds_up(rows: list[list[str]]) -> None:
    vocabulary = vocabulary_named("o200k")
    texts = prepare_texts(RowLiterals.of([[orjson.dumps(text) for text in row] for row in rows]))
    weights = vocabulary.weights.tolist()
    assert weigh_rows(texts, 0, len(rows), vocabulary).tolist() == plain_sums(rows, weights)


@given(st.lists(st.lists(st.text(max_size=40), max_size=3), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_a_row_weighs_the_same_alone_and_in_company(rows: list[list[str]]) -> None:
    vocabulary = vocabulary_named("o200k")
    literals = [[orjson.dumps(text) for text in texts] for texts in rows]
    together = prepare_texts(RowLiterals.of(literals))
    alone = [weigh_rows(prepare_texts(RowLiterals.of([one])), 0, 1, vocabulary)[0] for one in literals]
    assert weigh_rows(together, 0, len(rows), vocabulary).tolist() == [int(value) for value in alone]
    assert together.text_bytes.tolist() == [sum(len(text.encode()) for text in texts) for texts in rows]
    assert np.all(together.text_bytes >= 0)
