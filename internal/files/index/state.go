package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// state is the content of a shard's state file: the valid runs and their dropped
// packs. It is replaced by a rename, so that a run and its drops always match. A
// shard without a valid state file is empty.
type state struct {
	Next    uint64     // number of the next run
	Runs    []runState // valid runs
	Dropped []string   // dropped packs in them
}

type runState struct {
	Name string
	Sum  uint32 // checksum of the tail
}

const (
	stateName  = "state"
	stateMagic = "stintcs1"
	stateHead  = len(stateMagic) + 4
)

// readState returns an empty state if the file is missing or invalid.
func readState(dir string) (state, error) {
	b, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("reading the chunk index's state: %w", err)
	}
	if len(b) < stateHead || string(b[:len(stateMagic)]) != stateMagic {
		return state{}, nil
	}
	body := b[stateHead:]
	var s state
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(stateMagic):]) || json.Unmarshal(body, &s) != nil {
		return state{}, nil
	}
	return s, nil
}

// write replaces the state file, durably if sync is set.
func (s *state) write(dir string, sync bool) error {
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the chunk index's state: %w", err)
	}
	b := binary.LittleEndian.AppendUint32([]byte(stateMagic), crc32.Checksum(body, castagnoli))
	if err := replaceFile(filepath.Join(dir, stateName), append(b, body...), sync); err != nil {
		return fmt.Errorf("writing the chunk index's state: %w", err)
	}
	return nil
}

func replaceFile(path string, b []byte, sync bool) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if sync && err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil || !sync {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
