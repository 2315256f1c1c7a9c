#!/bin/sh
# Counts the words on standard input. What it prints is the run's output, what
# it writes into the working directory is kept.
set -eu
echo "counting …" >&2
tr -s '[:space:]' '\n' | sed '/^$/d' | sort | uniq -c | sort -k1,1nr -k2 | while read -r n word; do
  echo "$n $word"
done | tee counts.txt
[ -s counts.txt ] || { echo "the prompt has no words" >&2; exit 1; }
