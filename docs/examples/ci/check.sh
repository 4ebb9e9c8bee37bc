#!/bin/sh
# Plan the deployment, record a benchmark beside it, and hold it against the accepted run:
#   sh check.sh RESULTS [BASELINE]
# Ends with 0 when it is as good or better, 1 when it is slower, 2 when that cannot be told.
set -eu
cd "$(dirname "$0")"

id_of() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

plan=$(planner plan chat.yaml --no-advice --json | id_of plan_id)
run=$(planner record "$plan" "$1" --json | id_of run_id)
planner accept "$run" --baseline "${2:-release}"
