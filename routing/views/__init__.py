"""Pages of batches: customers' list, batch, results and cancel; operators' list and batch.

``batches``, ``files``, ``cancelling`` and ``operators`` hold the views, ``lists`` what both lists share, ``shown`` what
a page of a batch says, ``polling`` when it asks again. Every page and its fragment are one view and one set of
templates.
"""
