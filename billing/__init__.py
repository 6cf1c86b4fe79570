"""Billing: the ledger, wallets, holds, receipts and the record of every provider attempt.

Public modules: ``services`` (what writes), ``selectors`` (what reads), ``domain`` (money, rating and their records),
``api`` (``/v1/wallet``, ``/v1/receipts``).
Always holds, kept by the database itself: the legs of a transaction sum to zero and never change; a customer's balance
row is what its legs and open holds say; posted minus held never falls below the floor; a hold has one exit; a receipt
equals its lines and its posting.
"""
