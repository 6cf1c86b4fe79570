"""Customers' pages of batches: the list, one batch (live until it has ended), its files.

``batches`` and ``files`` hold the views, ``access`` who may see them, ``shown`` what a page of a batch says,
``polling`` when it asks again. Every page and its fragment are one view and one set of templates.
"""
