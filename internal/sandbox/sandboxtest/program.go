package sandboxtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programName is the name under which the test binary is started to run one of the
// suite's programs.
const programName = "stint-testprogram"

// programTimeout limits how long a program waits for a result that normally arrives at
// once. Only failing tests wait that long.
const programTimeout = time.Minute

// Program contains the arguments, streams, and signals of one of the suite's programs. Test
// drivers that run commands as functions create a Program and pass it to RunProgram.
type Program struct {
	Argv   []string // Argv[1] is the name of the program
	Env    []string
	Dir    string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Term   <-chan struct{}            // closed at SIGTERM
	Done   <-chan struct{}            // closed at SIGKILL; nil if the program runs as a process
	Path   func(inside string) string // converts a path inside the sandbox to the path that the program must use
}

// RunProgram runs the program named g.Argv[1] with the arguments g.Argv[2:] and returns its
// exit code. If the program fails without an exit code of its own, RunProgram writes the
// error to g.Stderr and returns 1. If there is no such program, it returns 2.
func RunProgram(g Program) int {
	if len(g.Argv) < 2 {
		fmt.Fprintln(g.Stderr, "no program is named")
		return 2
	}
	program, ok := programsByName[g.Argv[1]]
	if !ok {
		fmt.Fprintf(g.Stderr, "no program %q\n", g.Argv[1])
		return 2
	}
	if err := program(g, g.Argv[2:]); err != nil {
		if code, ok := errors.AsType[exitCode](err); ok {
			return int(code)
		}
		fmt.Fprintln(g.Stderr, err)
		return 1
	}
	return 0
}

type exitCode int

func (c exitCode) Error() string { return "exit code " + strconv.Itoa(int(c)) }

// programsByName maps names to the programs of the suite. The programs listed here can run
// both as functions and as processes. Other files add programs that must run as processes
// or that require Linux.
var programsByName = map[string]func(g Program, args []string) error{
	"exit":        exitProgram,
	"args":        argsProgram,
	"env":         envProgram,
	"pwd":         func(g Program, _ []string) error { _, err := fmt.Fprint(g.Stdout, g.Dir); return err },
	"cat":         func(g Program, _ []string) error { _, err := io.Copy(g.Stdout, g.Stdin); return err },
	"say":         sayProgram,
	"flood":       floodProgram,
	"write":       writeProgram,
	"read":        readProgram,
	"link":        func(g Program, a []string) error { return os.Symlink(a[0], g.Path(a[1])) },
	"hang":        hangProgram,
	"ignore-term": ignoreTermProgram,
}

func exitProgram(_ Program, args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return exitCode(code)
}

// argsProgram writes each argument followed by a zero byte.
func argsProgram(g Program, args []string) error {
	for _, a := range args {
		if _, err := io.WriteString(g.Stdout, a+"\x00"); err != nil {
			return err
		}
	}
	return nil
}

func envProgram(g Program, _ []string) error {
	env := slices.Clone(g.Env)
	slices.Sort(env)
	_, err := io.WriteString(g.Stdout, strings.Join(env, "\n"))
	return err
}

// sayProgram writes its arguments alternately to stdout and stderr.
func sayProgram(g Program, args []string) error {
	for i, a := range args {
		w := g.Stdout
		if i%2 == 1 {
			w = g.Stderr
		}
		if _, err := io.WriteString(w, a); err != nil {
			return err
		}
	}
	return nil
}

// floodProgram writes numbered lines with a total size of args[0] bytes.
func floodProgram(g Program, args []string) error {
	size, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	_, err = g.Stdout.Write(floodText(size))
	return err
}

func floodText(size int) []byte {
	b := make([]byte, 0, size+32)
	for i := 0; len(b) < size; i++ {
		b = append(strconv.AppendInt(append(b, "line "...), int64(i), 10), '\n')
	}
	return b[:size]
}

// writeProgram writes files. Its arguments are alternately a path and the file's content.
func writeProgram(g Program, args []string) error {
	for pair := range slices.Chunk(args, 2) {
		path := g.Path(pair[0])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(pair[1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func readProgram(g Program, args []string) error {
	for _, a := range args {
		b, err := os.ReadFile(g.Path(a))
		if err != nil {
			return err
		}
		if _, err := g.Stdout.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// hangProgram writes "ready" and exits with code 7 on SIGTERM.
func hangProgram(g Program, _ []string) error {
	if _, err := io.WriteString(g.Stdout, "ready\n"); err != nil {
		return err
	}
	select {
	case <-g.Term:
		return exitCode(7)
	case <-g.Done:
		return exitCode(137)
	}
}

// ignoreTermProgram writes "ready", and runs until SIGKILL.
func ignoreTermProgram(g Program, _ []string) error {
	if _, err := io.WriteString(g.Stdout, "ready\n"); err != nil {
		return err
	}
	<-g.Done
	return exitCode(137)
}

// runProgramProcess runs the program that this process's arguments name, and returns
// its exit code.
func runProgramProcess() int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	closed := make(chan struct{})
	go func() {
		<-term
		close(closed)
	}()
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return RunProgram(Program{
		Argv: os.Args, Env: os.Environ(), Dir: dir,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Term: closed, Path: func(p string) string { return p },
	})
}
