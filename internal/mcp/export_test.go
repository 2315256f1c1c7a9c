package mcp

import "github.com/stint-dev/stint"

// Piece returns a piece of the output in events, like the tool run_output: the text
// after a position, limited to room bytes, the position after the text, and whether
// more output follows.
func Piece(events []stint.Event, after string, room int) (text, next string, more bool, err error) {
	at, err := parsePosition(after)
	if err != nil {
		return "", "", false, err
	}
	t := outputPage{position: at, room: room}
	for _, e := range events {
		if e.Seq <= at.seq {
			continue
		}
		full, err := t.add(e)
		if err != nil {
			return "", "", false, err
		}
		if full {
			break
		}
	}
	return t.text.String(), t.String(), t.more, nil
}

// TextOf calls textOf.
var TextOf = textOf
