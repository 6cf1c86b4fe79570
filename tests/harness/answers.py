"""What a provider gave, row by row, whether its adapter gave rows one by one or many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from routing.providers.answered import AnsweredRows
from routing.providers.base import Outcome, ResultItem, RowResult, TokenUsage, make_row_key


def one_by_one(stream: Iterable[ResultItem | AnsweredRows], *, token: str) -> Iterator[ResultItem]:
    """Give each row's result by itself."""
    for read in stream:
        if not isinstance(read, AnsweredRows):
            yield read
            continue
        for row, tokens, body in zip(read.rows.tolist(), read.tokens.tolist(), read.bodies, strict=True):
            yield RowResult(
                row_key=make_row_key(token, row),
                row=row,
                outcome=Outcome.SUCCEEDED,
                code=None,
                healable=False,
                status_code=read.status_code,
                body=body,
                usage=TokenUsage(**dict(zip(TokenUsage.__struct_fields__, tokens, strict=True))),
            )
