#!/bin/sh
# Put a Markdown file on a pull request, in place of the comment of the last run:
#   GH_TOKEN=… sh comment.sh OWNER/REPOSITORY NUMBER FILE
set -eu
repository=$1 number=$2 file=$3

# GitHub takes 65,536 characters
head -c 65000 "$file" >"$file.cut"
known=$(gh api "repos/$repository/issues/$number/comments" --paginate \
    --jq '.[] | select(.body | startswith("<!-- planner -->")) | .id' | head -n 1)
if [ -n "$known" ]; then
    gh api --method PATCH "repos/$repository/issues/comments/$known" -F "body=@$file.cut"
else
    gh api --method POST "repos/$repository/issues/$number/comments" -F "body=@$file.cut"
fi >/dev/null
