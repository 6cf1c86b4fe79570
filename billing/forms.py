"""Filters of billing's lists."""

from __future__ import annotations

from django import forms

from billing.models import AccountKind, TransactionKind
from ground.filters import DaysForm

# A movement's kind in a customer's words.
MOVEMENT_WORDS = {
    TransactionKind.TOP_UP: "Top-up",
    TransactionKind.SETTLEMENT: "Batch settled",
    TransactionKind.CREDIT: "Credit",
    TransactionKind.DEBIT: "Charge",
    TransactionKind.REFUND: "Refund",
    TransactionKind.WRITE_OFF: "Write-off",
    TransactionKind.REVERSAL: "Reversal",
    TransactionKind.GRANT: "Grant",
    TransactionKind.GRANT_EXPIRY: "Grant expired",
}
# Of every entry of the ledger, also those that touch no wallet.
ENTRY_WORDS = {**MOVEMENT_WORDS, TransactionKind.PROVIDER_ADJUSTMENT: "Provider adjustment"}
# An account's kind in words, in the order in which a trial balance lists them.
ACCOUNT_WORDS = {
    AccountKind.CUSTOMER_WALLET: "Customer wallet",
    AccountKind.CUSTOMER_RECEIVABLE: "Customer receivable",
    AccountKind.TOP_UP_CLEARING: "Top-up clearing",
    AccountKind.PROVIDER_PAYABLE: "Provider payable",
    AccountKind.REVENUE_USAGE: "Revenue, usage",
    AccountKind.REVENUE_FEE: "Revenue, fees",
    AccountKind.BREAKAGE: "Breakage",
    AccountKind.COST_OF_SERVICE: "Cost of service",
    AccountKind.CEILING_CREDIT: "Credits above the ceiling",
    AccountKind.ADJUSTMENT: "Adjustments",
    AccountKind.PROMOTION: "Promotion",
    AccountKind.WRITE_OFF: "Write-offs",
}
FINAL, CREDITED = "final", "credited"


class ReceiptFilterForm(DaysForm):
    """Which receipts to show."""

    searches = "id_text"
    text = forms.CharField(
        label="Receipt or batch id", required=False, max_length=60, widget=forms.TextInput({"type": "search"})
    )
    state = forms.ChoiceField(
        label="State", required=False, choices=[("", "All"), (FINAL, "Final"), (CREDITED, "Credited")]
    )
    field_order = ("text", "state", "since", "until")

    def is_credited(self) -> bool | None:
        """Give what a valid form asks of the credit above the ceiling; None for anything."""
        return {FINAL: False, CREDITED: True}.get(self.cleaned_data["state"])


class StatementFilterForm(DaysForm):
    """Which movements of the wallet to show."""

    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "All"), *MOVEMENT_WORDS.items()])
    field_order = ("kind", "since", "until")
