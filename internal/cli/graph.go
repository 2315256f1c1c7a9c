package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// showGraph prints the versions of an artifact or volume, newest first, with lines from each
// version to the version that it was made from.
func (a *app) showGraph(ctx context.Context, trees *client.FileSets, tree *stint.FileSet) error {
	var versions []stint.FileSetVersion
	known := map[string]bool{}
	for v, err := range trees.Versions(ctx, tree.ID) {
		if err != nil {
			return err
		}
		versions = append(versions, v)
		known[v.ID] = true
	}
	slices.SortStableFunc(versions, func(x, y stint.FileSetVersion) int { return int(versionNumber(y.ID) - versionNumber(x.ID)) })
	g := graph{}
	for _, v := range versions {
		if joined := g.join(v.ID); joined != "" {
			fmt.Fprintln(a.Stdout, joined)
		}
		current := tree.CurrentVersionID != nil && *tree.CurrentVersionID == v.ID
		parent, missing := "", ""
		if v.ParentVersionID != nil {
			if parent = *v.ParentVersionID; !known[parent] {
				parent, missing = "", " (made from "+shortVersion(parent)+", which was removed)"
			}
		}
		line := g.version(v.ID, parent, current)
		name := shortVersion(v.ID)
		if current {
			name = a.colour(stdout, green, name+" (current)")
		}
		text := fmt.Sprintf("%s %s  %s  %s  %s", line, name, v.CreatedAt, plain(v.CreatedBy), plain(clip(v.Message, 60)))
		if _, err := fmt.Fprintln(a.Stdout, strings.TrimRight(text, " ")+missing); err != nil {
			return fmt.Errorf("write the graph: %w", err)
		}
	}
	return nil
}

// graph draws a forest whose nodes are given children first. Each lane is a column that leads
// down to the node that it names; an empty lane is free.
type graph struct{ lanes []string }

// join ends all lanes but the first that lead to a node, and returns the line that draws
// this, or an empty string if there is at most one such lane.
func (g *graph) join(id string) string {
	first := slices.Index(g.lanes, id)
	last := first
	for i, lane := range g.lanes {
		if lane == id {
			last = i
		}
	}
	if first == last {
		return ""
	}
	var b strings.Builder
	for i, lane := range g.lanes {
		inside := first <= i && i < last
		switch {
		case i == first:
			b.WriteString("├")
		case lane == id && i == last:
			b.WriteString("╯")
		case lane == id:
			b.WriteString("┴")
		case lane == "" && inside:
			b.WriteString("─")
		case lane == "":
			b.WriteString(" ")
		case inside:
			b.WriteString("┼")
		default:
			b.WriteString("│")
		}
		b.WriteString(map[bool]string{true: "─", false: " "}[inside])
		if lane == id && i != first {
			g.lanes[i] = ""
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// version returns the line of a node up to its text. The node's lane then leads to its
// parent, or is free if parent is empty.
func (g *graph) version(id, parent string, current bool) string {
	at := slices.Index(g.lanes, id)
	if at < 0 {
		if at = slices.Index(g.lanes, ""); at < 0 {
			at = len(g.lanes)
			g.lanes = append(g.lanes, "")
		}
		g.lanes[at] = id
	}
	var b strings.Builder
	for i, lane := range g.lanes {
		switch {
		case i == at && current:
			b.WriteString("● ")
		case i == at:
			b.WriteString("○ ")
		case lane == "":
			b.WriteString("  ")
		default:
			b.WriteString("│ ")
		}
	}
	g.lanes[at] = parent
	for len(g.lanes) > 0 && g.lanes[len(g.lanes)-1] == "" {
		g.lanes = g.lanes[:len(g.lanes)-1]
	}
	return strings.TrimRight(b.String(), " ")
}

// shortVersion returns v<N> of the ID v<N>_….
func shortVersion(id string) string {
	short, _, _ := strings.Cut(id, "_")
	return short
}

func versionNumber(id string) int64 {
	_, number, _ := stint.ParseVersion(shortVersion(id), stint.IsFileSetVersion)
	return number
}
