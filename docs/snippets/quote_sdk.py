"""Look at the price before anything runs, then accept, with the official OpenAI SDK."""

import os

from openai import OpenAI

client = OpenAI(base_url=os.environ["LANEHOUSE_URL"] + "/v1", api_key=os.environ["LANEHOUSE_API_KEY"])

with open("requests.jsonl", "rb") as requests:
    quote = client.post(
        "/quotes/model",
        cast_to=object,
        content=requests.read(),
        options={"headers": {"Content-Type": "application/jsonl"}},
    )

for lane in quote["lanes"]:
    print(lane["model"], "on", lane["lane_id"], lane["row_count"], "requests")
print("at most", quote["estimate"]["ceiling_micro_usd"], "micro-USD")

if quote["sufficient_credit"] and quote["estimate"]["ceiling_micro_usd"] < 1_000_000:
    batch = client.batches.create(
        input_file_id=quote["id"],
        endpoint="/v1/chat/completions",
        completion_window="24h",
        extra_body={"quote_id": quote["id"]},
    )
    print(batch.id, batch.status)
