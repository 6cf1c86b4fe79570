auth="Authorization: Bearer $LANEHOUSE_API_KEY"
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$@"; }

# Upload; the file is kept for a day instead of the usual time.
curl -sS --fail-with-body "$LANEHOUSE_URL/v1/files" -H "$auth" -F purpose=batch \
  -F "expires_after[anchor]=created_at" -F "expires_after[seconds]=86400" \
  -F file=@requests.jsonl -o file.json
file=$(field file.json id)

# Have it priced; large files are read in the background, so ask until it is "ready".
curl -sS --fail-with-body "$LANEHOUSE_URL/v1/quotes/model" -H "$auth" \
  -H "Content-Type: application/json" -d "{\"input_file_id\": \"$file\"}" -o quote.json
while [ "$(field quote.json status)" = pending ]; do
  sleep 1
  curl -sS --fail-with-body "$LANEHOUSE_URL/v1/quotes/$(field quote.json id)" -H "$auth" -o quote.json
done
cat quote.json

# Delete what is no longer needed. Quotes and batches that were made of it go on.
curl -sS --fail-with-body -X DELETE "$LANEHOUSE_URL/v1/files/$file" -H "$auth"
