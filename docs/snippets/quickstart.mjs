// From a file of requests to its results. Node 18 or newer; no packages.
import { readFile } from "node:fs/promises";

const call = async (path, options = {}) => {
  const response = await fetch(`${process.env.LANEHOUSE_URL}/v1${path}`, {
    ...options,
    headers: { Authorization: `Bearer ${process.env.LANEHOUSE_API_KEY}`, ...options.headers },
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response;
};

const quote = await (await call("/quotes/model", {
  method: "POST",
  headers: { "Content-Type": "application/jsonl" },
  body: await readFile("requests.jsonl"),
})).json();
console.log(`${quote.row_count} requests, about ${quote.estimate.total_micro_usd} micro-USD`);

let batch = await (await call("/batches", {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ quote_id: quote.id, metadata: { name: "my first batch" } }),
})).json();
while (!["completed", "failed", "expired", "cancelled"].includes(batch.status)) {
  await new Promise((resolve) => setTimeout(resolve, 5000));
  batch = await (await call(`/batches/${batch.id}`)).json();
}

const results = await (await call(`/batches/${batch.id}/results`)).text();
for (const line of results.trimEnd().split("\n")) {
  const { custom_id, response, error } = JSON.parse(line);
  console.log(custom_id, error ? error.code : response.body.choices[0].message.content);
}
