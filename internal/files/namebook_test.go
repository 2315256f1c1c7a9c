package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// book is a database of references to trees and of marked objects. Each line of its
// file is a transaction in JSON.
type book struct {
	*names
	file   *os.File
	trees  map[string]string // names of trees by digest
	damage string            // last Damage of a transaction
}

// line is one transaction: it adds or removes a reference, begins a collection,
// marks (Condemn) or unmarks (Pardon) objects, or stores a value of the test (Damage).
type line struct {
	Enter, Tree, Strike string `json:",omitempty"`
	Epoch               int64  `json:",omitempty"`
	Condemn             []string
	Since               stint.Time
	Pardon              []string
	Damage              string `json:",omitempty"`
}

// openBook opens or creates the file and applies its transactions. An incomplete
// last line is removed from the file.
func openBook(t testing.TB, path string) *book {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	b := &book{names: newNames(), trees: map[string]string{}}
	good := 0
	for l := range bytes.Lines(text) {
		var x line
		if !bytes.HasSuffix(l, []byte("\n")) {
			break
		}
		if err := json.Unmarshal(l, &x); err != nil {
			t.Fatal(err)
		}
		b.apply(x)
		good += len(l)
	}
	if b.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		t.Fatal(err)
	}
	if good < len(text) {
		if err := b.file.Truncate(int64(good)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *book) apply(x line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case x.Enter != "":
		b.named[x.Enter], b.trees[x.Enter] = true, x.Tree
	case x.Strike != "":
		delete(b.named, x.Strike)
	case x.Epoch != 0 && x.Condemn == nil:
		b.epoch = x.Epoch
	case x.Damage != "":
		b.damage = x.Damage
	}
	for _, k := range x.Condemn {
		if _, ok := b.marked[k]; !ok {
			b.marked[k] = store.MarkedObject{Key: k, Epoch: x.Epoch, Since: x.Since.Time}
		}
	}
	for _, k := range x.Pardon {
		delete(b.marked, k)
	}
}

// write appends a transaction to the file, syncs the file, and applies the
// transaction.
func (b *book) write(x line) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if _, err := b.file.Write(append(text, '\n')); err != nil {
		return err
	}
	if err := b.file.Sync(); err != nil {
		return err
	}
	b.apply(x)
	return nil
}

// enter adds a reference to a tree if the epoch of its commit is current.
func (b *book) enter(tree string, ref files.Ref) error {
	if ref.Epoch != b.epoch {
		return store.ErrEpoch
	}
	return b.write(line{Enter: ref.Digest, Tree: tree})
}

func (b *book) strike(digest string) error { return b.write(line{Strike: digest}) }

func (b *book) BeginCollection(context.Context, string) (int64, error) {
	next := b.epoch + 1
	return next, b.write(line{Epoch: next})
}

func (b *book) MarkObjects(_ context.Context, _ string, epoch int64, keys []string, at stint.Time) error {
	return b.write(line{Condemn: keys, Epoch: epoch, Since: at})
}

func (b *book) UnmarkObjects(_ context.Context, _ string, keys []string) error {
	return b.write(line{Pardon: keys})
}
