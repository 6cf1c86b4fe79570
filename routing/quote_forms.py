"""Forms of the pages of quotes: a file to price, and the list's filters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from ground.filters import DaysForm

STATE_WORDS = {
    "": "All",
    "open": "Open",
    "accepted": "Accepted",
    "expired": "Expired",
    "pending": "Pending",
    "failed": "Failed",
}
_MIB = 1024 * 1024


class PriceForm(forms.Form):
    """A JSONL file, chosen or pasted, and the workflow it is priced under."""

    file = forms.FileField(
        label="JSONL file",
        required=False,
        allow_empty_file=True,
        widget=forms.ClearableFileInput({"accept": ".jsonl,.ndjson,.json,.txt,application/jsonl"}),
    )
    text = forms.CharField(
        label="Or paste its lines",
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 6, "spellcheck": "false", "autocomplete": "off"}),
    )
    workflow = forms.ChoiceField(label="Workflow", required=False)

    def __init__(self, *args: Any, workflows: Iterable[str], **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        self.fields["workflow"] = forms.ChoiceField(
            label="Workflow",
            required=False,
            choices=[("", "default"), *((name, name) for name in workflows)],
            help_text="What waiting and errors are worth, and what a lane must meet.",
        )
        self.fields["file"].help_text = (
            f"One request a line, models may be mixed. Up to {settings.FILE_MAX_BYTES // _MIB:,} MiB; above "
            f"{settings.QUOTE_BODY_MAX_BYTES // _MIB} MiB it is kept as a file and priced in the background."
        )

    def clean(self) -> dict[str, Any]:
        """Take one of the two, within the limit of its way."""
        cleaned = super().clean() or self.cleaned_data
        file, text = cleaned.get("file"), cleaned.get("text") or ""
        if file is not None and text.strip():
            self.add_error("text", "Choose a file or paste lines, not both.")
        elif file is None and not text.strip() and "file" not in self.errors:
            self.add_error("file", "Choose a file, or paste its lines below.")
        if isinstance(file, UploadedFile) and (file.size or 0) > settings.FILE_MAX_BYTES:
            self.add_error("file", f"A file is up to {settings.FILE_MAX_BYTES // _MIB:,} MiB.")
        if len(text.encode(errors="replace")) > settings.QUOTE_BODY_MAX_BYTES:
            limit = settings.QUOTE_BODY_MAX_BYTES // _MIB
            self.add_error("text", f"Up to {limit} MiB can be pasted. Choose a file.")
        return cleaned

    def long_file(self) -> UploadedFile[Any] | None:
        """Give a valid form's file if it is too long to be priced at once."""
        file = self.cleaned_data["file"]
        is_long = isinstance(file, UploadedFile) and (file.size or 0) > settings.QUOTE_BODY_MAX_BYTES
        return file if is_long else None

    def body(self) -> bytes:
        """Give a valid form's file as bytes; a browser's line ends are a text area's, not the customer's."""
        file = self.cleaned_data["file"]
        if isinstance(file, UploadedFile):
            content: bytes = file.read()
            return content
        text: str = self.cleaned_data["text"]
        return text.replace("\r\n", "\n").encode(errors="surrogatepass")


class QuoteFilterForm(DaysForm):
    """Which of an organisation's quotes to show."""

    text = forms.CharField(
        label="Id or workflow",
        required=False,
        max_length=80,
        widget=forms.TextInput({"type": "search", "size": "11", "autocomplete": "off"}),
    )
    state = forms.ChoiceField(
        label="State", required=False, choices=list(STATE_WORDS.items()), widget=forms.HiddenInput
    )
    field_order = ("text", "since", "until", "state")
