package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a program on a pseudo-terminal.
type terminal struct {
	t      *testing.T
	user   *os.File // the master side: written keys are the program's input
	cmd    *exec.Cmd
	pieces chan string
	shown  strings.Builder
}

// openTerminal starts a program on a new terminal.
func openTerminal(t *testing.T, environ []string, name string, args ...string) *terminal {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	p := &terminal{t: t, user: user, cmd: exec.Command(name, args...), pieces: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), environ...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = screen, screen, screen
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // if the test fails before the program exits
	go p.read()
	return p
}

func (p *terminal) read() {
	defer close(p.pieces)
	buffer := make([]byte, 4096)
	for {
		n, err := p.user.Read(buffer)
		if n > 0 {
			p.pieces <- string(buffer[:n])
		}
		if err != nil {
			return // EIO: the program has closed the terminal
		}
	}
}

// await waits until the program has printed text. It fails the test after deadline.
func (p *terminal) await(text string) {
	p.t.Helper()
	limit := time.After(deadline)
	for !strings.Contains(p.shown.String(), text) {
		select {
		case piece, ok := <-p.pieces:
			if !ok {
				p.t.Fatalf("the program exited without showing %q:\n%s", text, p.shown.String())
			}
			p.shown.WriteString(piece)
		case <-limit:
			_ = p.cmd.Process.Kill()
			p.t.Fatalf("%q was not shown:\n%s", text, p.shown.String())
		}
	}
}

func (p *terminal) types(keys string) {
	p.t.Helper()
	if _, err := p.user.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// shows reports whether the terminal shows the keys that are typed.
func (p *terminal) shows() bool {
	p.t.Helper()
	state, err := unix.IoctlGetTermios(int(p.user.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// end waits until the program has exited, and returns the error of its exit status.
func (p *terminal) end() error {
	for piece := range p.pieces {
		p.shown.WriteString(piece)
	}
	return p.cmd.Wait()
}

func TestDemoKeepsServer(t *testing.T) {
	t.Parallel()
	stint, temp, home := filepath.Join(bin, "stint"), t.TempDir(), t.TempDir()
	environ := []string{"TMPDIR=" + temp, "HOME=" + home, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "STINT_URL=", "STINT_TOKEN=", "NO_COLOR=1"}
	p := openTerminal(t, environ, stint, "demo")
	p.await("Keep this server running to play with it? [y/N] ")
	p.types("y\n")
	p.await("  stint runs list") // printed after the export line
	place := regexp.MustCompile(`export XDG_CONFIG_HOME=(\S+)`).FindStringSubmatch(p.shown.String())
	if place == nil {
		t.Fatalf("the output does not name a configuration:\n%s", p.shown.String())
	}
	cmd := exec.Command(stint, "artifact", "cat", "report", "report.md")
	cmd.Env = append(append(os.Environ(), environ...), "XDG_CONFIG_HOME="+place[1])
	report, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(report), "Together: 47 words.") {
		t.Errorf("reading from the kept server: %v:\n%s", err, report)
	}
	p.types("\x03") // Ctrl-C
	if err := p.end(); err != nil {
		t.Errorf("the demonstration exited with %v:\n%s", err, p.shown.String())
	}
	for name, dir := range map[string]string{"temporary folder": temp, "home": home} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("files in the %s: %v %v", name, left, err)
		}
	}
}

// TestInterruptEndsHiddenPrompt checks that one Ctrl-C ends a hidden prompt, and that the
// terminal then shows typed text again.
func TestInterruptEndsHiddenPrompt(t *testing.T) {
	t.Parallel()
	p := openTerminal(t, []string{"HOME=" + t.TempDir(), "STINT_URL=http://127.0.0.1:9", "STINT_TOKEN=x"}, filepath.Join(bin, "stint"), "secret", "set", "KEY")
	p.await("Value of KEY (not shown): ")
	if p.shows() {
		t.Error("the terminal shows input when the prompt appears")
	}
	p.types("\x03")
	p.await("stint: interrupted")
	if !p.shows() {
		t.Error("the terminal does not show input after the prompt")
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.end()); !ok || exit.ExitCode() != 130 {
		t.Errorf("the command exited with %v:\n%s", exit, p.shown.String())
	}
}

// TestHiddenPromptEndsWithInput checks that Ctrl-D on an empty line ends a hidden prompt.
func TestHiddenPromptEndsWithInput(t *testing.T) {
	t.Parallel()
	p := openTerminal(t, []string{"HOME=" + t.TempDir(), "STINT_URL=http://127.0.0.1:9", "STINT_TOKEN=x"}, filepath.Join(bin, "stint"), "secret", "set", "KEY")
	p.await("Value of KEY (not shown): ")
	p.types("\x04")
	p.await("the value of KEY is empty")
	if exit, ok := errors.AsType[*exec.ExitError](p.end()); !ok || exit.ExitCode() != 2 {
		t.Errorf("the command exited with %v:\n%s", exit, p.shown.String())
	}
}

func TestDemoStopsServer(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	p := openTerminal(t, []string{"TMPDIR=" + temp, "HOME=" + temp, "TERM=xterm", "NO_COLOR="}, filepath.Join(bin, "stint"), "demo")
	p.await("[y/N] ")
	p.types("\n")
	if err := p.end(); err != nil {
		t.Errorf("the demonstration exited with %v:\n%s", err, p.shown.String())
	}
	if !strings.Contains(p.shown.String(), "\x1b[1m1. Start a server") {
		t.Errorf("the titles are not bold on a terminal:\n%s", p.shown.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
