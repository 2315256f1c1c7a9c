package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// faultyDefinition is a refusal of a definition by the server, with the place of each
// fault in the file.
type faultyDefinition struct {
	refusal *client.Error
	faults  []string // sorted by their places
}

// Error returns the faults, one per line.
func (e *faultyDefinition) Error() string { return strings.Join(e.faults, "\n") }

// Unwrap returns the error of the server.
func (e *faultyDefinition) Unwrap() error { return e.refusal }

// explain adds the places in the file to an error of the server about the definition.
// Other errors are returned unchanged.
func (s *definitionSource) explain(err error) error {
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Code != stint.CodeInvalidParameter && refusal.Code != stint.CodeMissingParameter {
		return err
	}
	details := refusal.Details
	if len(details) == 0 {
		details = []stint.Detail{{Param: refusal.Param, Message: refusal.Message}}
	}
	return &faultyDefinition{refusal, s.place(len(details), func(i int) (param, message string) { return details[i].Param, details[i].Message })}
}

// place returns n messages in the order of their parameters in the file, each preceded
// by FILE:LINE:COLUMN.
func (s *definitionSource) place(n int, item func(i int) (param, message string)) []string {
	type placed struct {
		line, column int
		message      string
	}
	all := make([]placed, n)
	for i := range all {
		param, message := item(i)
		line, column := locate(s.root, param)
		all[i] = placed{line, column, message}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column)) })
	texts := make([]string, n)
	for i, p := range all {
		texts[i] = fmt.Sprintf("%s:%d:%d: %s", s.file, p.line, p.column, p.message)
	}
	return texts
}

// locate returns the place of the parameter with the given path, such as
// volumes.data.path or command[0]: the place of its key or list element. If the file does
// not contain it, locate returns the place of the innermost parameter around it.
func locate(node ast.Node, path string) (line, column int) {
	at := node.GetToken().Position
	if values := membersOf(node); len(values) > 0 {
		at = values[0].Key.GetToken().Position
	}
	for path != "" {
		var place, inner ast.Node
		if place, inner, path = step(node, path); place == nil {
			break
		}
		at, node = place.GetToken().Position, inner
	}
	return at.Line, at.Column
}

// step returns the key or list element with which path begins, its value, and the rest of
// the path. Of several keys it chooses the longest, because keys can contain dots.
func step(node ast.Node, path string) (place, value ast.Node, rest string) {
	if list, ok := node.(*ast.SequenceNode); ok {
		for i, element := range list.Values {
			if after, ok := cutKey(path, fmt.Sprintf("[%d]", i)); ok {
				return element, element, after
			}
		}
		return nil, nil, ""
	}
	longest := -1
	for _, member := range membersOf(node) {
		key := member.Key.GetToken().Value
		if after, ok := cutKey(path, key); ok && len(key) > longest {
			place, value, rest, longest = member.Key, member.Value, after, len(key)
		}
	}
	return place, value, rest
}

// cutKey removes a key, and the dot after it, from the beginning of path.
func cutKey(path, key string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, key)
	return strings.TrimPrefix(rest, "."), ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func membersOf(node ast.Node) []*ast.MappingValueNode {
	switch node := node.(type) {
	case *ast.MappingNode:
		return node.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}
	}
	return nil
}
