package sandboxtest

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

func init() { programsByName["change-network"] = changeNetworkProgram }

// changeNetworkProgram tries to change the network in several ways, and then connects to
// the address args[0]. args[1:] names the attempts that may succeed. If any other attempt
// succeeds, the program fails.
func changeNetworkProgram(g Program, args []string) error {
	for name, attack := range map[string]func() error{
		"loopback goes down":   loopbackDown,
		"the route is deleted": func() error { return netlinkRequest(unix.NETLINK_ROUTE, unix.RTM_DELROUTE, 0, localDefault()) },
		"another route is added": func() error {
			return netlinkRequest(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, unix.NLM_F_CREATE, localDefault())
		},
		"the rules are deleted":       func() error { return deleteTables() },
		"a raw socket is made":        func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
		"a packet socket is made":     func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
		"a socket has a mark":         marked53,
		"a socket is bound elsewhere": boundElsewhere,
		"any address is transparent":  transparent,
	} {
		if err := attack(); err == nil && !slices.Contains(args[1:], name) {
			return fmt.Errorf("%s", name)
		}
	}
	return dialProgram(g, args[:1])
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func loopbackDown() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(0)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// localDefault returns the body of a netlink request for the route "local default dev
// lo".
func localDefault() []byte {
	b := []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	b = binary.NativeEndian.AppendUint16(b, 8)
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_OIF)
	return binary.NativeEndian.AppendUint32(b, 1)
}

func deleteTables() error {
	mark := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES}
	all := []byte{unix.NFPROTO_UNSPEC, unix.NFNETLINK_V0, 0, 0}
	b := netlinkMessage(unix.NFNL_MSG_BATCH_BEGIN, 0, mark)
	b = append(b, netlinkMessage(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE, unix.NLM_F_ACK, all)...)
	return netlinkSend(unix.NETLINK_NETFILTER, append(b, netlinkMessage(unix.NFNL_MSG_BATCH_END, 0, mark)...))
}

func netlinkRequest(protocol int, kind, flags uint16, body []byte) error {
	return netlinkSend(protocol, netlinkMessage(kind, flags|unix.NLM_F_ACK, body))
}

func netlinkMessage(kind, flags uint16, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	return append(append(b, make([]byte, 8)...), body...)
}

func netlinkSend(protocol int, b []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return err
	}
	if errno := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}

// option sets a socket option on a new TCP socket. It is called with options by which
// privileged processes can bypass the redirection of connections.
func option(level, name, value int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, level, name, value)
}

func marked53() error    { return option(unix.SOL_SOCKET, unix.SO_MARK, 53) }
func transparent() error { return option(unix.SOL_IP, unix.IP_TRANSPARENT, 1) }

// boundElsewhere returns nil if an interface other than loopback is up, and ENODEV
// otherwise.
func boundElsewhere() error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return nil
		}
	}
	return unix.ENODEV
}
