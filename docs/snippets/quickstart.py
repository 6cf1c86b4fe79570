"""From a file of requests to its results, with the official OpenAI SDK."""

import json
import os
import time

from openai import OpenAI

client = OpenAI(base_url=os.environ["LANEHOUSE_URL"] + "/v1", api_key=os.environ["LANEHOUSE_API_KEY"])

with open("requests.jsonl", "rb") as requests:
    file = client.files.create(file=requests, purpose="batch")

# The file is priced and, if the credit is there, run: the batch is "validating" until then.
batch = client.batches.create(
    input_file_id=file.id,
    endpoint="/v1/chat/completions",
    completion_window="24h",
    metadata={"name": "my first batch"},
)
while batch.status not in {"completed", "failed", "expired", "cancelled"}:
    time.sleep(5)
    batch = client.batches.retrieve(batch.id)

print(batch.status, batch.request_counts)
if batch.output_file_id:
    for line in client.files.content(batch.output_file_id).text.splitlines():
        result = json.loads(line)
        print(result["custom_id"], result["response"]["body"]["choices"][0]["message"]["content"])
if batch.error_file_id:
    print(client.files.content(batch.error_file_id).text)
