# Reads every text below /data and writes report.md and words/ into the
# working directory, which is kept as the run's artifact.
set -euo pipefail
mkdir -p words
total=0
{
  echo "# ${TITLE:-Report}"
  echo
} >report.md
for text in /data/*.txt; do
  name=${text##*/}
  count=0
  while read -r -a words || [ ${#words[@]} -gt 0 ]; do
    count=$((count + ${#words[@]}))
    [ ${#words[@]} -eq 0 ] || printf '%s\n' "${words[@]}"
  done <"$text" >"words/$name"
  echo "read $name: $count words"
  echo "- $name: $count words" >>report.md
  total=$((total + count))
  sleep 0.4
done
printf '\nTogether: %d words.\n' "$total" >>report.md
echo "wrote report.md"
