//go:build linux

package capture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// batch collects netlink messages for one send.
type batch struct {
	data   []byte
	opened []int  // offsets of unfinished messages and attributes
	sent   uint32 // number of messages, and sequence number of the last
	acks   int    // number of expected acknowledgements
}

var native = binary.NativeEndian

// message starts a message, which done finishes. body is the header that follows
// the netlink header.
func (b *batch) message(kind, flags uint16, body ...byte) {
	b.opened = append(b.opened, len(b.data))
	if flags&unix.NLM_F_ACK != 0 {
		b.acks++
	}
	b.sent++
	b.data = native.AppendUint32(b.data, 0) // length, set by done
	b.data = native.AppendUint16(b.data, kind)
	b.data = native.AppendUint16(b.data, flags|unix.NLM_F_REQUEST)
	b.data = native.AppendUint32(b.data, b.sent)
	b.data = native.AppendUint32(b.data, 0)
	b.data = append(b.data, body...)
	b.pad()
}

func (b *batch) done() {
	at := b.open()
	native.PutUint32(b.data[at:], uint32(len(b.data)-at))
}

// nest starts a nested attribute, which end finishes.
func (b *batch) nest(kind uint16) {
	b.opened = append(b.opened, len(b.data))
	b.data = native.AppendUint16(b.data, 0)
	b.data = native.AppendUint16(b.data, kind|unix.NLA_F_NESTED)
}

func (b *batch) end() {
	at := b.open()
	native.PutUint16(b.data[at:], uint16(len(b.data)-at))
}

// open removes and returns the offset of the innermost unfinished message or
// attribute.
func (b *batch) open() int {
	last := len(b.opened) - 1
	at := b.opened[last]
	b.opened = b.opened[:last]
	return at
}

// bytes appends an attribute.
func (b *batch) bytes(kind uint16, value ...byte) {
	b.data = native.AppendUint16(b.data, uint16(4+len(value)))
	b.data = native.AppendUint16(b.data, kind)
	b.data = append(b.data, value...)
	b.pad()
}

// text appends a string attribute with the trailing zero byte that the kernel expects.
func (b *batch) text(kind uint16, value string) { b.bytes(kind, append([]byte(value), 0)...) }

// network appends an integer attribute in network byte order, as nftables expects.
func (b *batch) network(kind uint16, value uint32) {
	b.bytes(kind, binary.BigEndian.AppendUint32(nil, value)...)
}

func (b *batch) pad() {
	for len(b.data)%unix.NLA_ALIGNTO != 0 {
		b.data = append(b.data, 0)
	}
}

// send sends the batch to the kernel and returns the first error that the kernel
// reports. The kernel processes netlink messages synchronously, so all its answers
// are available when the system call returns.
func (b *batch) send(protocol int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, b.data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answers, buf := 0, make([]byte, 8<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return err
		}
		acks, err := parseAcks(buf[:n])
		if err != nil {
			return err
		}
		answers += acks
	}
	if answers != b.acks {
		return fmt.Errorf("%d of %d netlink messages were answered", answers, b.acks)
	}
	return nil
}

// parseAcks returns the number of acknowledged messages in a packet, or the first
// error that the kernel reports in it.
func parseAcks(b []byte) (int, error) {
	acks := 0
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(native.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return acks, errors.New("malformed netlink answer")
		}
		if native.Uint16(b[4:]) == unix.NLMSG_ERROR {
			if size < unix.SizeofNlMsghdr+4 {
				return acks, errors.New("malformed netlink answer")
			}
			if errno := int32(native.Uint32(b[unix.SizeofNlMsghdr:])); errno != 0 {
				return acks, unix.Errno(-errno)
			}
			acks++
		}
		b = b[min(len(b), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
	}
	return acks, nil
}
