#!/usr/bin/env bash
# Builds reproducible release archives with static binaries, and their checksums.
set -euo pipefail
version="$(git describe --tags --always --dirty)" # go build takes the program's version from the tag, too
rm -rf dist && mkdir dist
for arch in amd64 arm64; do
	dir="dist/stint_${version}_linux_${arch}"
	mkdir "$dir"
	CGO_ENABLED=0 GOOS=linux GOARCH="$arch" go build -trimpath -ldflags="-s -w" -o "$dir/stint" ./cmd/stint
	cp LICENSE README.md "$dir/"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='@0' -C dist -czf "$dir.tar.gz" "$(basename "$dir")"
	rm -r "$dir"
done
(cd dist && sha256sum ./*.tar.gz >checksums.txt)
