package cli

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sealing/keyring"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// Env is the environment of a command.
type Env struct {
	Args    []string // arguments of the program, without its name
	Environ func(string) (string, bool)
	// Variables returns all environment variables in the form NAME=VALUE.
	Variables func() []string
	Dir       string // working directory, absolute
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Now       func() time.Time
	// IsTerminal reports whether standard input, output, or error (0, 1, 2) is
	// a terminal.
	IsTerminal func(fd int) bool
	// ReadPassword reads a line from the terminal without showing it. It calls ask
	// when the terminal hides input. When ctx ends, it restores the terminal and
	// returns the cause.
	ReadPassword func(ctx context.Context, ask func()) ([]byte, error)
	// TerminalSize returns the numbers of columns and lines of the terminal that is
	// standard output.
	TerminalSize func() (width, height int)
	// RawTerminal makes each key readable from standard input at once, without
	// showing it and without signals. If standard input is not a terminal, it does
	// nothing.
	RawTerminal func() (restore func(), err error)
	// Interrupts delivers the user's requests to stop the command.
	Interrupts <-chan Interrupt

	// Executable returns the path of this program.
	Executable func() (string, error)

	// Serve runs a server until ctx ends. It calls ready when the server
	// answers.
	Serve func(ctx context.Context, c config.Config, ready func(ServerInfo)) error
	// Isolations returns the names of all isolators.
	Isolations func() []string
	// Probe reports what an isolator supports on this machine. It returns soon after
	// the end of ctx and leaves nothing behind.
	Probe func(ctx context.Context, c config.Config, isolation string) sandbox.Report
	// Programs reports for each framework whether it works on this machine.
	Programs func(ctx context.Context) ([]agentcli.Installed, error)
	// OpenKeys opens the keys of an installation while its server is stopped.
	OpenKeys func(ctx context.Context, c config.Config) (Keys, error)
	// OpenMaintenance opens an installation while its server is stopped.
	OpenMaintenance func(ctx context.Context, c config.Config) (Maintenance, error)
}

// Interrupt is a request to stop a command.
type Interrupt int

// The kinds of interrupts.
const (
	Stop   Interrupt = iota // Ctrl-C or SIGTERM
	HangUp                  // the terminal was closed
)

// Keys gives access to the encryption keys of an installation. Close releases the
// installation.
type Keys interface {
	List(ctx context.Context) ([]keyring.Info, error)
	RotateAll(ctx context.Context, org string) ([]keyring.Info, error)
	RotateInstallation(ctx context.Context) (int, error)
	Close() error
}

// ServerInfo describes a running server.
type ServerInfo struct {
	URL     string `json:"url"`
	Socket  string `json:"socket"`
	DataDir string `json:"dataDir"`
}

// getenv returns an environment variable, or "".
func (e *Env) getenv(name string) string {
	v, _ := e.Environ(name)
	return v
}

// path returns the absolute form of a path that is absolute or relative to Dir.
func (e *Env) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(e.Dir, p)
}

// The file descriptors for IsTerminal.
const (
	stdin  = 0
	stdout = 1
	stderr = 2
)
