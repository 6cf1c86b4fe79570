auth="Authorization: Bearer $LANEHOUSE_API_KEY"
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$@"; }

# 1. Ask for a price. Nothing runs and nothing is charged.
curl -sS --fail-with-body "$LANEHOUSE_URL/v1/quotes/model" -H "$auth" \
  -H "Content-Type: application/jsonl" --data-binary @requests.jsonl -o quote.json

# 2. Accept it. The reservation is held in your wallet until the batch has ended.
curl -sS --fail-with-body "$LANEHOUSE_URL/v1/batches" -H "$auth" \
  -H "Content-Type: application/json" -d "{\"quote_id\": \"$(field quote.json id)\"}" -o batch.json
batch="$LANEHOUSE_URL/v1/batches/$(field batch.json id)"

# 3. Wait until it has ended; a webhook saves you the asking.
until field batch.json status | grep -qE 'completed|failed|expired|cancelled'; do
  sleep 5
  curl -sS --fail-with-body "$batch" -H "$auth" -o batch.json
done

# 4. Every request once, in the order of your file; and what it cost.
curl -sS --fail-with-body "$batch/results" -H "$auth" -o results.jsonl
curl -sS --fail-with-body "$batch/receipt" -H "$auth" -o receipt.json
cat results.jsonl
