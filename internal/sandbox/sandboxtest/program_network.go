package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() {
	programsByName["dial"] = dialProgram
	programsByName["ask"] = askProgram
	programsByName["refuse"] = refuseProgram
	programsByName["loopback-only"] = loopbackOnlyProgram
	programsByName["serve"] = serveProgram
	programsByName["dial-many"] = dialManyProgram
	programsByName["echo"] = echoProgram
}

// dialProgram connects to each of the addresses args, sends a greeting, and writes the
// answer.
func dialProgram(g Program, args []string) error {
	for _, a := range args {
		said, err := greet(a)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.Stdout, "%s\n", said)
	}
	return nil
}

func greet(address string) ([]byte, error) {
	c, err := net.DialTimeout("tcp4", address, programTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(programTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, "hello "+address); err != nil {
		return nil, err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return nil, err
	}
	said, err := io.ReadAll(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return said, nil
}

// askProgram sends a datagram to each of the addresses args and writes the answer, which
// must come from that address.
func askProgram(g Program, args []string) error {
	for _, a := range args {
		answer, err := exchange("udp", a)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.Stdout, "%s\n", answer)
	}
	return nil
}

func exchange(network, address string) ([]byte, error) {
	c, err := net.DialTimeout(network, address, programTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(programTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, address); err != nil {
		return nil, err
	}
	b := make([]byte, 1500)
	n, err := c.Read(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return b[:n], nil
}

// refuseProgram succeeds if each destination in args, given as "network address", refuses
// the connection or datagram. It fails if a destination answers or if an operation times
// out after programTimeout.
func refuseProgram(_ Program, args []string) error {
	for _, a := range args {
		network, address, _ := strings.Cut(a, " ")
		answer, err := exchange(network, address)
		var timeout net.Error
		switch {
		case err == nil:
			return fmt.Errorf("%s answers %q", a, answer)
		case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("%s is silent", a)
		}
	}
	return nil
}

// loopbackOnlyProgram succeeds if it can connect to its own listeners on loopback addresses,
// but neither to the host's address args[0] nor to loopback ports without a listener.
func loopbackOnlyProgram(_ Program, args []string) error {
	if err := refuseProgram(Program{}, []string{"tcp " + args[0], "tcp 127.0.0.1:8700", "tcp 127.1.2.3:443", "tcp [::1]:443"}); err != nil {
		return err
	}
	for _, listen := range []string{"127.0.0.1:0", "127.9.9.9:0", "0.0.0.0:0", "[::1]:0"} {
		if err := selfTalk(listen); err != nil {
			return fmt.Errorf("listening at %s: %w", listen, err)
		}
	}
	return nil
}

func selfTalk(listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		if errors.Is(err, syscall.EADDRNOTAVAIL) && strings.HasPrefix(listen, "[") {
			return nil // the system has no IPv6
		}
		return err
	}
	defer l.Close()
	c, err := net.DialTimeout("tcp", strings.Replace(l.Addr().String(), "0.0.0.0", "127.0.0.1", 1), programTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		return err
	}
	defer peer.Close()
	if _, err := io.WriteString(peer, "x"); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// serveProgram answers connections and datagrams at the address args[0] until it is
// killed.
func serveProgram(g Program, args []string) error {
	l, err := net.Listen("tcp4", args[0])
	if err != nil {
		return err
	}
	defer l.Close()
	p, err := net.ListenPacket("udp4", args[0])
	if err != nil {
		return err
	}
	defer p.Close()
	fmt.Fprintln(g.Stdout, "ready")
	go func() {
		b := make([]byte, 64)
		for {
			n, from, err := p.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = p.WriteTo(b[:n], from)
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(c, "here")
		c.Close()
	}
}

// dialManyProgram connects to the address args[0] args[1] times concurrently.
func dialManyProgram(_ Program, args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	done := make(chan error, n)
	for range n {
		go func() {
			_, err := greet(args[0])
			done <- err
		}()
	}
	var errs []error
	for range n {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// echoProgram sends args[1] bytes to the address args[0], and succeeds if it receives the
// same bytes.
func echoProgram(_ Program, args []string) error {
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp4", args[0], programTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	text := floodText(size)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(text)
		sent <- errors.Join(err, c.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(c)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(text, got) {
		return fmt.Errorf("%d bytes were returned of %d", len(got), len(text))
	}
	return nil
}
