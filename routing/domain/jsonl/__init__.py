"""Reading a JSONL file of requests.

Public modules: ``table`` (the rows as parallel columns), ``known`` (files by the compiled pass of ``compiled`` and
``rows.c``, for the common shapes), ``fast`` (bytes to table, or a sign of trouble), ``exact`` (one line judged by the
letter, and the report of everything wrong with a file), ``checks`` (the rules of a row's values). The fast path decodes
by ``typed``, proves by ``account`` that nothing was lost, and takes tools, schemas and parts from ``rare``. Always
holds: all paths accept and refuse the same files; no message holds prompt text.

A byte-order mark at the start of a file is accepted and skipped (spreadsheets and shells write one; JSON allows to
ignore it); anywhere else it is an invalid line. Lines end at LF alone, a CR before it is dropped.
"""
