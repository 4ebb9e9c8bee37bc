#!/bin/sh
# fill.sh STORE: some plans, runs and a baseline to look at, by the commands of every day.
# Run it in a checkout. The measured files are those of docs/examples/ci; their figures are invented.
set -eu
db=$1
id_of() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
quiet() { "$@" > /dev/null || test $? -eq 1; }   # 1 is a plan that does not fit, and is kept

for spec in specs/qwen2.5-7b-rtx4090.yaml specs/qwen2.5-7b-chunked-prefill.yaml \
    specs/llama-3.1-8b-chat.yaml specs/llama-3.3-70b-4xh100.yaml; do
  quiet planner plan "$spec" --db "$db"
done
for gpu in l40s h100-sxm h200-sxm; do
  quiet planner plan specs/qwen2.5-7b-rtx4090.yaml --set "gpu=$gpu" --set price=null --db "$db"
done
plan=$(planner plan docs/examples/ci/chat.yaml --json --db "$db" | id_of plan_id)
for file in release same slower; do
  run=$(planner record "$plan" "docs/examples/ci/$file.json" --db "$db" --json | id_of run_id)
  test "$file" != release || quiet planner baseline set release "$run" --by ann --db "$db"
done
