"""What each lane makes of a chat row's parameters: keep, map, drop, or refuse at the quote.

Public modules: ``needs`` and ``messages`` (what rows ask beyond plain text), ``table`` (what each kind of lane does
with each ask), ``judgement`` (a group's asks against one lane), ``schemas`` (which JSON schemas an answer can be held
to), ``lanes`` (families of lanes and what their models take). Always holds: what would change an answer is refused,
never dropped; what is dropped cannot change an answer, and is said.
"""
