"""Customers' pages of money: receipts and the wallet.

``receipts`` and ``wallet`` hold the views, ``shown`` what the pages say. Every page and its fragment are one view and
one set of templates.
"""
