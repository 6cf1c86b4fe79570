"""Bodies come in the order in which they are asked for, wherever they lie."""

from __future__ import annotations

import tempfile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from routing.bodies import read_bodies


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=20), st.data())
def test_bodies_are_read_in_the_order_asked_for(bodies: list[bytes], data: st.DataObject) -> None:
    lengths = np.array([len(body) for body in bodies])
    offsets = np.cumsum(lengths) - lengths
    order = data.draw(st.permutations(range(len(bodies))))
    asked = np.array(order[: data.draw(st.integers(1, len(bodies)))])
    with tempfile.TemporaryFile() as blob:
        blob.write(b"".join(bodies))
        blob.flush()
        found = read_bodies(blob.fileno(), offsets[asked], lengths[asked])
    assert found == [bodies[index] for index in asked]
