package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

type treeOut struct {
	ID               string     `json:"id"`
	Name             string     `json:"name"`
	CurrentVersionID *string    `json:"currentVersionId" jsonschema:"null if nothing is stored in it"`
	Size             int64      `json:"size" jsonschema:"bytes of the current version"`
	FileCount        int64      `json:"fileCount"`
	UpdatedAt        stint.Time `json:"updatedAt"`
}

type artifactsOut struct {
	Artifacts []treeOut `json:"artifacts"`
	pageOut
}

type volumesOut struct {
	Volumes []treeOut `json:"volumes"`
	pageOut
}

type filesIn struct {
	Artifact string `json:"artifact" jsonschema:"name or ID of the artifact"`
	Version  string `json:"version,omitempty" jsonschema:"ID or number of a version; default: the current one"`
	Prefix   string `json:"prefix,omitempty" jsonschema:"only paths that begin with this, such as src/"`
	pageIn
}

type fileOut struct {
	Path string `json:"path"`
	Kind string `json:"kind" jsonschema:"file, dir or symlink"`
	Size int64  `json:"size"`
}

type filesOut struct {
	Files []fileOut `json:"files"`
	pageOut
}

type readIn struct {
	Artifact string `json:"artifact" jsonschema:"name or ID of the artifact"`
	Version  string `json:"version,omitempty" jsonschema:"ID or number of a version; default: the current one"`
	Path     string `json:"path" jsonschema:"path of the file in the artifact"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"byte to begin with"`
	MaxBytes int    `json:"maxBytes,omitempty" jsonschema:"maximum number of bytes"`
}

type readOut struct {
	Text   string `json:"text,omitempty" jsonschema:"the content, if it is text"`
	Base64 string `json:"base64,omitempty" jsonschema:"the content, if it is not text"`
	Size   int64  `json:"size" jsonschema:"bytes of the whole file"`
	Next   *int64 `json:"next,omitempty" jsonschema:"offset of the next part; missing at the end of the file"`
}

func addFileTools(s *sdk.Server) {
	add(s, &sdk.Tool{
		Name: "list_artifacts", Annotations: readOnly("List artifacts"),
		Description: "List the artifacts, newest first: versioned folders of files that runs wrote.",
	}, schemaOf[pageIn](paged), func(ctx context.Context, c call, in pageIn) (artifactsOut, error) {
		all, cursor, err := trees(ctx, c.Artifacts, in)
		return artifactsOut{all, cursor}, err
	})
	add(s, &sdk.Tool{
		Name: "list_artifact_files", Annotations: readOnly("List an artifact's files"),
		Description: "List what is in a version of an artifact, in the order of the paths.",
	}, schemaOf[filesIn](paged), listFiles)
	add(s, &sdk.Tool{
		Name: "read_artifact_file", Annotations: readOnly("Read a file of an artifact"),
		Description: "Read a file of an artifact, or a part of a large one: text as text, anything else as base64.",
	}, schemaOf[readIn](func(p properties) {
		p.between("maxBytes", 1, maxText, maxText)
		least := 0.0
		p["offset"].Minimum = &least
	}), readFile)
	add(s, &sdk.Tool{
		Name: "list_volumes", Annotations: readOnly("List volumes"),
		Description: "List the volumes, newest first: versioned folders of files that runs read.",
	}, schemaOf[pageIn](paged), func(ctx context.Context, c call, in pageIn) (volumesOut, error) {
		all, cursor, err := trees(ctx, c.Volumes, in)
		return volumesOut{all, cursor}, err
	})
}

func trees(ctx context.Context, kind *client.FileSets, in pageIn) ([]treeOut, pageOut, error) {
	page, err := kind.Page(ctx, in.options())
	if err != nil {
		return nil, pageOut{}, err
	}
	all := make([]treeOut, len(page.Data))
	for i, t := range page.Data {
		all[i] = treeOut{t.ID, t.Name, t.CurrentVersionID, t.Size, t.FileCount, t.UpdatedAt}
	}
	return all, next(page.Pagination), nil
}

func listFiles(ctx context.Context, c call, in filesIn) (filesOut, error) {
	artifact, err := c.Artifacts.Find(ctx, in.Artifact)
	if err != nil {
		return filesOut{}, err
	}
	page, err := c.Artifacts.FilesPage(ctx, artifact.ID, in.Version, in.Prefix, in.options())
	if err != nil {
		return filesOut{}, err
	}
	out := filesOut{Files: make([]fileOut, len(page.Data)), pageOut: next(page.Pagination)}
	for i, f := range page.Data {
		out.Files[i] = fileOut{f.Path, f.Kind, f.Size}
	}
	return out, nil
}

func readFile(ctx context.Context, c call, in readIn) (readOut, error) {
	artifact, err := c.Artifacts.Find(ctx, in.Artifact)
	if err != nil {
		return readOut{}, err
	}
	part, size, err := c.Artifacts.ReadFilePart(ctx, artifact.ID, in.Version, in.Path, in.Offset, int64(in.MaxBytes))
	if err != nil {
		return readOut{}, err
	}
	out := readOut{Size: size}
	end := in.Offset + int64(len(part))
	if text, ok := textOf(part, end < size); ok {
		out.Text, end = text, in.Offset+int64(len(text))
	} else {
		out.Base64 = base64.StdEncoding.EncodeToString(part)
	}
	if end < size {
		out.Next = &end
	}
	return out, nil
}

// textOf returns a part of a file as text. If the file goes on after the part, an
// incomplete character at the end is removed. textOf returns false if the part is
// empty, contains a zero byte, or is not UTF-8.
func textOf(part []byte, goesOn bool) (string, bool) {
	for cut := 0; goesOn && cut < utf8.UTFMax-1 && !utf8.Valid(part); cut++ {
		if r, size := utf8.DecodeLastRune(part); r != utf8.RuneError || size != 1 {
			break
		}
		part = part[:len(part)-1]
	}
	return string(part), len(part) > 0 && utf8.Valid(part) && !bytes.ContainsRune(part, 0)
}
