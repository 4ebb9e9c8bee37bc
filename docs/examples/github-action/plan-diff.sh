#!/bin/sh
# Plan the deployments that changed since a commit, and print what that does as Markdown:
#   sh plan-diff.sh BASE [PATHSPEC…]      (by default every *.yaml and *.yml)
# Ends with 0 when all fit, 1 when one does not, 2 when one cannot be planned.
set -u
base=$1
shift
[ $# -gt 0 ] || set -- '*.yaml' '*.yml'

scratch=$(mktemp -d)
before=$scratch/before
cleanup() { git worktree remove --force "$before" 2>/dev/null; rm -rf "$scratch"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

cd "$(git rev-parse --show-toplevel)" || exit 2
if ! fork=$(git merge-base "$base" HEAD); then
    echo "no common commit with $base; a shallow checkout needs fetch-depth: 0" >&2
    exit 2
fi
# the whole tree as it was: a deployment may name files beside it
git worktree add --quiet --detach "$before" "$fork" || exit 2

is_deployment() { [ -f "$1" ] && grep -q '^gpu:' "$1" && grep -Eq '^(step|workload|pools):' "$1"; }
fenced() { printf '```text\n%s\n```\n\n' "$(cat "$1")"; }

worst=0
count=0
echo '<!-- planner -->'
echo '## What this changes in the plans'
echo
git -c core.quotePath=false diff --no-renames --name-only "$fork" -- "$@" >"$scratch/changed"
while IFS= read -r file <&3; do
    is_deployment "$file" || is_deployment "$before/$file" || continue
    count=$((count + 1))
    echo "### \`$file\`"
    echo
    if ! [ -f "$file" ]; then
        echo 'It is removed.'
        echo
        continue
    fi
    planner plan "$file" --no-save --no-advice --only notes >"$scratch/plan" 2>&1
    code=$?
    [ "$code" -le "$worst" ] || worst=$code
    if [ "$code" -gt 1 ]; then
        echo '**It cannot be planned.**'
        echo
        fenced "$scratch/plan"
    elif is_deployment "$before/$file" &&
        planner diff "$before/$file" "$file" --markdown >"$scratch/diff" 2>/dev/null; then
        cat "$scratch/diff"
        echo
    else
        echo 'It is new.'
        echo
        fenced "$scratch/plan"
    fi
done 3<"$scratch/changed"
[ "$count" -gt 0 ] || echo 'No deployment changed.'
exit "$worst"
