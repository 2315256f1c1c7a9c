// Command recording runs a command on a terminal and writes an SVG that shows its
// output line by line, slowly enough to read. Without animation, the SVG shows the end.
//
//	recording FILE TITLE COMMAND [ARGUMENT...]
//
// It answers the question "[y/N]" with n and ends the recording before it.
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"
)

const (
	columns, rows = 104, 26
	each          = 120 * time.Millisecond  // time between two lines, at least
	heading       = 1200 * time.Millisecond // time between a bold line and the line before
	pause         = 7 * time.Second         // at the end, before the recording repeats
	width, height = 8.5, 19                 // of a character, in pixels
	margin, bar   = 16, 34                  // around the text; height of the title bar
)

// line is one row of the screen, and the time at which it was complete.
type line struct {
	text string
	bold bool
	at   time.Duration
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: recording FILE TITLE COMMAND [ARGUMENT...]")
	}
	lines, err := record(exec.Command(os.Args[3], os.Args[4:]...))
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(draw(os.Args[2], lines)), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// record runs the command and returns its lines.
func record(c *exec.Cmd) ([]line, error) {
	c.Env = append(os.Environ(), "TERM=xterm-256color")
	terminal, err := pty.StartWithSize(c, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		return nil, err
	}
	defer terminal.Close()
	start := time.Now()
	var lines []line
	var text strings.Builder
	for r := bufio.NewReader(terminal); ; {
		b, err := r.ReadByte()
		if err != nil { // the command has closed the terminal
			break
		}
		if text.WriteByte(b); b == '\n' {
			lines = append(lines, split(text.String(), time.Since(start))...)
			text.Reset()
		}
		if strings.HasSuffix(text.String(), "[y/N] ") {
			text.Reset()
			if _, err := terminal.WriteString("n\r"); err != nil {
				return nil, err
			}
			go func() { _, _ = io.Copy(io.Discard, r) }()
			break
		}
	}
	return lines, c.Wait()
}

var sequence = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// split returns the rows that a line of output occupies.
func split(text string, at time.Duration) (out []line) {
	text = strings.TrimRight(text, "\r\n")
	text = text[strings.LastIndexByte(text, '\r')+1:] // the last state of a progress line
	bold := strings.Contains(text, "\x1b[1m")
	left := []rune(sequence.ReplaceAllString(text, ""))
	for len(left) > columns {
		out = append(out, line{string(left[:columns]), bold, at})
		left = left[columns:]
	}
	return append(out, line{string(left), bold, at})
}

// schedule returns the time at which each line appears in the SVG.
func schedule(lines []line) []time.Duration {
	times := make([]time.Duration, len(lines))
	for i, l := range lines[1:] {
		pace := max(each, l.at-lines[i].at)
		if l.bold {
			pace = heading
		}
		times[i+1] = times[i] + pace
	}
	return times
}

// draw returns the SVG. A cover hides the lines that have not appeared yet. The lines and
// the cover move in steps.
func draw(title string, lines []line) string {
	title = fmt.Sprintf("%s (%.1f s, slowed down)", title, lines[len(lines)-1].at.Seconds())
	times := schedule(lines)
	total := times[len(times)-1] + pause
	var scroll, cover strings.Builder
	for i, at := range times {
		percent := 100 * float64(at) / float64(total)
		fmt.Fprintf(&cover, "%.2f%%{transform:translateY(%dpx)}", percent, (i+1)*height)
		if i >= rows {
			fmt.Fprintf(&scroll, "%.2f%%{transform:translateY(%dpx)}", percent, (rows-i-1)*height)
		}
	}
	shown := len(lines)
	w, h := int(columns*width)+2*margin, rows*height+bar+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d5dae1;white-space:pre}
.b{font-weight:bold;fill:#fff}.p{fill:#7fd1a0}.t{fill:#8b949e;text-anchor:middle}
.s{transform:translateY(%dpx);animation:s %.1fs step-end infinite}.c{transform:translateY(%dpx);animation:c %.1fs step-end infinite}
@keyframes s{0%%{transform:translateY(0)}%s}
@keyframes c{0%%{transform:translateY(0)}%s}
@media (prefers-reduced-motion:reduce){.s,.c{animation:none}}
</style>
<rect width="%d" height="%d" rx="9" fill="#161b22"/>
<rect x=".5" y=".5" width="%d" height="%d" rx="8.5" fill="none" stroke="#3b434d"/>
<circle cx="20" cy="17" r="5.5" fill="#3b434d"/><circle cx="38" cy="17" r="5.5" fill="#3b434d"/><circle cx="56" cy="17" r="5.5" fill="#3b434d"/>
<text class="t" x="%d" y="22">%s</text>
<svg x="1" y="%d" width="%d" height="%d"><g class="s">
`, w, h, w, h, html.EscapeString(title), -max(0, shown-rows)*height, total.Seconds(), shown*height, total.Seconds(),
		scroll.String(), cover.String(), w, h, w-1, h-1, w/2, html.EscapeString(title), bar, w-2, rows*height)
	for i, l := range lines {
		if l.text == "" {
			continue
		}
		class := ""
		if strings.HasPrefix(strings.TrimSpace(l.text), "$ ") {
			class = ` class="p"`
		}
		if l.bold {
			class = ` class="b"`
		}
		fmt.Fprintf(&b, "<text%s x=\"%d\" y=\"%d\">%s</text>\n", class, margin, i*height+14, html.EscapeString(l.text))
	}
	fmt.Fprintf(&b, "<rect class=\"c\" width=\"%d\" height=\"%d\" fill=\"#161b22\"/>\n</g></svg></svg>\n", w-2, (len(lines)+rows)*height)
	return b.String()
}
