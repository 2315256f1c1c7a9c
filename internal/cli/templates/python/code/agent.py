"""Counts the words of the prompt.

Standard output is the output of the run. Files in the working directory are
stored in the run's artifact. An exit code other than 0 means failure.
"""

import collections
import json
import sys

prompt = sys.stdin.read()
words = prompt.lower().split()
if not words:
    sys.exit("The prompt has no words.")

print(f"Counting {len(words)} words ...", file=sys.stderr)
counts = collections.Counter(words)
with open("counts.json", "w", encoding="utf-8") as file:
    json.dump(dict(counts.most_common()), file, indent=2, ensure_ascii=False)
    file.write("\n")
for word, count in counts.most_common():
    print(f"{count} {word}")
