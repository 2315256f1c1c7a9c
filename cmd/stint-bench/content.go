package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/files"
)

// dataset describes two versions of a folder of generated files. Equal descriptions
// generate equal files.
type dataset struct {
	name         string
	files        int
	size, spread int    // a file has between size and size+spread-1 bytes
	path         string // format of a file's path, for the arguments i and i/40
	noise        bool   // files do not compress
	edits        int    // every edits-th file gets an insertion in its middle
}

// write writes the first version and returns its size in bytes.
func (d *dataset) write(ctx context.Context, dir string) (total int) {
	var seed [32]byte
	copy(seed[:], d.name)
	source := rand.NewChaCha8(seed)
	r := rand.New(source)
	license := text(r, 1100)
	for i := range d.files {
		check(ctx.Err())
		content := license // the content of every twentieth file
		if d.noise {
			content = make([]byte, d.size+r.IntN(d.spread))
			must(source.Read(content))
		} else if i%20 > 0 {
			content = text(r, d.size+r.IntN(d.spread))
		}
		path := filepath.Join(dir, fmt.Sprintf(d.path, i, i/40))
		check(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)))
		total += len(content)
	}
	return total
}

// change turns the first version into the second: every edits-th file gets an
// insertion in its middle, and one file in 400 is replaced by a new one.
func (d *dataset) change(dir string) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 0
	check(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasSuffix(path, ".new") {
			return err
		}
		if n++; n%d.edits == 0 {
			content := must(os.ReadFile(path))
			return os.WriteFile(path, slices.Insert(content, len(content)/2, text(r, 60)...), 0o644)
		} else if n%400 == 1 {
			return errors.Join(os.WriteFile(path+".new", text(r, 5000), 0o644), os.Remove(path))
		}
		return nil
	}))
}

// text returns about n bytes of random words. Some words are far more frequent than
// others.
func text(r *rand.Rand, n int) (out []byte) {
	for len(out) < n {
		out = strconv.AppendInt(out, int64(r.ExpFloat64()*250)*7919, 36)
		out = append(out, " =;\n"[r.IntN(4)])
	}
	return out
}

// The operations on a dataset, in order.
const (
	firstSnapshot  = "first snapshot"
	secondSnapshot = "second snapshot by scanning"
	restore        = "restored to a folder"
	archive        = "archive of a version to a file"
)

// peers are the programs that Stint is compared with. Their shell commands are
// executed in the folder of the dataset. HOME is a folder for the program, TARGET a
// new folder, and OURS the path of Stint's archive. A goal is the minimum ratio of the
// program's time to Stint's time.
var peers = []struct {
	name, program, setup string
	commands             map[string]string
	goals                map[string]float64
}{
	{
		"restic", "restic", "restic init -q",
		map[string]string{firstSnapshot: "restic backup -q .", secondSnapshot: "restic backup -q .", restore: "restic restore -q latest --target $TARGET"},
		map[string]float64{firstSnapshot: 2, secondSnapshot: 1.5, restore: 1},
	},
	{
		"borg", "borg", "borg init -e none",
		map[string]string{firstSnapshot: "borg create -C lz4 ::1 .", secondSnapshot: "borg create -C lz4 ::2 .", restore: "cd $TARGET && borg extract ::2"},
		map[string]float64{restore: 1},
	},
	{"rsync", "rsync", "", map[string]string{restore: "rsync -a ./ $TARGET"}, map[string]float64{restore: 1}},
	{"tar|pigz", "pigz", "", map[string]string{archive: "tar -I pigz -cf $TARGET/copy ."}, map[string]float64{archive: 8}},
	{"cp of the archive", "cp", "", map[string]string{archive: "cp $OURS $TARGET/copy"}, map[string]float64{archive: 0.6}},
}

const benchOrg = "org_bench"

// content compares the storage of folders with that of other programs. It also
// measures how much large volumes and artifacts slow down a run.
func (l *lab) content(ctx context.Context) {
	for _, d := range []dataset{
		{"source tree", l.files, 1000, 26_000, "part%03[2]d/file%05[1]d.c", false, 100},
		{"node_modules", l.files, 200, 7000, "node_modules/p%04[2]d/dist/esm/m%05[1]d.js", false, 100},
		{"large files", 8, l.largeBytes / 8, 1, "large%[1]d-%[2]d.bin", true, 1},
	} {
		l.versions(ctx, &d)
	}
	l.firstByte(ctx)
	s := l.start(ctx, l.folder(), "--disk", "40GiB")
	l.largeVolume(ctx, s)
	l.largeArtifact(ctx, s)
}

// library is Stint's file store. Its digest is that of the dataset's newest version.
type library struct {
	*files.Library
	dir    string
	digest string
}

func (l *lab) library() *library {
	dir := l.folder()
	blobs := must(localfs.Open(dir))
	l.cleanup(blobs.Close)
	return &library{Library: must(files.New(blobs, files.Options{TempDir: l.folder()})), dir: dir}
}

// do executes an operation.
func (b *library) do(ctx context.Context, operation, source, target, ours string) {
	switch operation {
	case restore:
		check(b.Checkout(ctx, benchOrg, b.digest, target))
	case archive:
		a := must(b.Download(ctx, benchOrg, b.digest, files.TarGzip))
		defer a.Close()
		f := must(os.Create(ours))
		must(io.Copy(f, a))
		check(f.Close())
	default:
		b.digest = must(b.CommitDir(ctx, benchOrg, b.digest, source, files.DirOptions{})).Digest
	}
}

// versions measures each operation on one dataset, first with Stint and then with
// each peer.
func (l *lab) versions(ctx context.Context, d *dataset) {
	source, ours, b := l.folder(), filepath.Join(l.folder(), "ours.tar.gz"), l.library()
	size := d.write(ctx, source)
	homes := make([]string, len(peers)) // empty if the program is not installed
	for i, p := range peers {
		if _, err := exec.LookPath(p.program); err == nil {
			homes[i] = l.folder()
			l.shell(ctx, p.setup, source, homes[i], ours)
		}
	}
	cold := l.amounts == fullAmounts && dropCaches() == nil
	for _, name := range []string{firstSnapshot, secondSnapshot, restore, archive} {
		if name == secondSnapshot {
			d.change(source)
		}
		measure := func(f func()) Measure {
			execute(ctx, nil, "sync") // so that earlier writes do not slow down f
			if cold && name == firstSnapshot {
				check(dropCaches())
			}
			return Measure{Value: milliseconds(timed(f)), Unit: "ms"}
		}
		target := l.folder()
		row := Row{What: d.name + ": " + name, Measured: measure(func() { b.do(ctx, name, source, target, ours) })}
		notes := []string{fmt.Sprintf("%d files, %.0f MB, caches dropped: %t", d.files, float64(size)/1e6, cold && name == firstSnapshot)}
		var goals []Goal
		for i, p := range peers {
			if homes[i] == "" || p.commands[name] == "" {
				continue
			}
			m := measure(func() { l.shell(ctx, p.commands[name], source, homes[i], ours) })
			notes = append(notes, p.name+" "+m.String())
			goal := p.goals[name]
			if goal > 0 && d.noise && name == secondSnapshot {
				goal = 2 // without compression, Stint must be faster
			}
			if goal > 0 {
				row = compare(row.What, row.Measured, p.name, m)
				goals = append(goals, atLeast("time of "+p.name, m.Value/row.Measured.Value, goal, "×"))
			}
		}
		row.Note = strings.Join(notes, ", ")
		l.add(row, goals...)
	}
	mb := func(dir string) Measure { return Measure{Value: float64(folderSize(dir)) / 1e6, Unit: "MB"} }
	row, goals := Row{What: d.name + ": stored after two versions", Measured: mb(b.dir)}, []Goal(nil)
	if homes[0] != "" {
		row = compare(row.What, row.Measured, "restic", mb(filepath.Join(homes[0], "repo")))
		goals = append(goals, atMost("of restic's", row.Ratio, 1.1, "×"))
	}
	l.add(row, goals...)
}

// shell runs a command line of a peer.
func (l *lab) shell(ctx context.Context, line, source, home, ours string) {
	execute(ctx, []string{
		"HOME=" + home, "OURS=" + ours, "TARGET=" + l.folder(), "RESTIC_PASSWORD=bench", "RESTIC_REPOSITORY=" + home + "/repo",
		"BORG_REPO=" + home + "/repo", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes",
	}, "sh", "-c", "cd '"+source+"'\n"+line)
}

// dropCaches empties the kernel's file caches, so that the next reads come from the
// disk. It requires root.
func dropCaches() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) }

func folderSize(dir string) (total int64) {
	check(filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			total += must(e.Info()).Size()
		}
		return err
	}))
	return total
}

// archiveOf returns a tar archive of n files.
func archiveOf(n int, file func(i int) (name string, content []byte)) io.ReadCloser {
	in, out := io.Pipe()
	go func() { // ends when the reader is closed
		t := tar.NewWriter(out)
		var err error
		for i := 0; i < n && err == nil; i++ {
			name, content := file(i)
			err = t.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg, ModTime: time.Unix(1767225600, 0)})
			if err == nil {
				_, err = t.Write(content)
			}
		}
		out.CloseWithError(errors.Join(err, t.Close()))
	}()
	return in
}

// smallFiles returns a tar archive of n files in many folders.
func smallFiles(n int) io.ReadCloser {
	return archiveOf(n, func(i int) (string, []byte) {
		return fmt.Sprintf("d%04d/e%02d/f%07d", i/4000, i/100%40, i), fmt.Appendf(nil, "file %d", i)
	})
}

// firstByte measures the time to the first byte of a download of many files.
func (l *lab) firstByte(ctx context.Context) {
	b, in := l.library(), smallFiles(l.entries)
	defer in.Close()
	b.digest = must(b.CommitArchive(ctx, benchOrg, "", files.Tar, in)).Digest
	took := inTurn(ctx, 0, 20, func(ctx context.Context) time.Duration {
		return timed(func() {
			a := must(b.Download(ctx, benchOrg, b.digest, files.TarGzip))
			defer a.Close()
			must(io.ReadFull(a, make([]byte, 1)))
		})
	})
	m := latency(took[0])
	l.add(Row{What: fmt.Sprintf("first byte of a download of %d files", l.entries), Measured: m}, atMost("p50", m.P50Ms, 20, "ms"))
}

// push creates a volume or artifact and stores a tar archive as its first version.
func push(ctx context.Context, sets *client.FileSets, name string, in io.ReadCloser) {
	defer in.Close()
	set := must(sets.Create(ctx, name))
	_, _, err := sets.Push(ctx, set.ID, in, &client.PushOptions{ContentType: "application/x-tar"})
	check(err)
}

// largeVolume compares the time to the first output of runs with a small and with a
// large volume.
func (l *lab) largeVolume(ctx context.Context, s *server) {
	for name, n := range map[string]int{"few": 10, "many": l.entries} {
		push(ctx, s.api.Volumes, name, smallFiles(n))
		s.createAgent(ctx, fmt.Sprintf(`{"name":%q,"framework":"shell","volumes":{%[1]q:{"path":"/data"}}}`, name))
	}
	took := inTurn(ctx, warmUps, max(l.samples/25, 2), s.firstOutput("few"), s.firstOutput("many"))
	row := compare(fmt.Sprintf("first output of a run with a volume of %d files that is checked out", l.entries), latency(took[1]), "with ten files", latency(took[0]))
	l.add(row, atMost("of a run with ten files", row.Ratio, 1.25, "×"))
}

// largeArtifact measures the time to store a large artifact after a run has appended a
// line to one of its files.
func (l *lab) largeArtifact(ctx context.Context, s *server) {
	noise, content := rand.NewChaCha8([32]byte{2}), make([]byte, l.artifactBytes/l.artifactFiles)
	path := func(i int) string { return fmt.Sprintf("d%02d/f%06d", i%100, i) }
	push(ctx, s.api.Artifacts, "large", archiveOf(l.artifactFiles, func(i int) (string, []byte) {
		must(noise.Read(content))
		return path(i), content
	}))
	s.createAgent(ctx, agentDefinition)
	n := 0
	took := inTurn(ctx, warmUps, max(l.samples/50, 2), func(ctx context.Context) time.Duration {
		n++
		id := s.completed(ctx, stint.NewRun{Agent: agentName, ArtifactName: "large", Prompt: "echo line >>" + path(n)})
		return s.logged(ctx, id, "files")
	})
	m := latency(took[0])
	l.add(Row{
		What:     fmt.Sprintf("storing an artifact of %.1f GB in %d files after a line was appended to one", float64(l.artifactBytes)/1e9, l.artifactFiles),
		Measured: m,
	}, atMost("p50", m.P50Ms, 100, "ms"))
}
