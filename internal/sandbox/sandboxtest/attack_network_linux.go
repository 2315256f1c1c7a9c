package sandboxtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketAttempts returns attempts to create sockets that bypass the sandbox's network
// or that give access to rarely used parts of the kernel.
func socketAttempts() []attempt {
	all := []attempt{
		{"a raw socket", socketOf(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), allowedInNamespaces},
		{"a raw IPv6 socket", socketOf(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6), allowedInNamespaces},
		{"a raw IP socket", socketOf(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW), allowedInNamespaces},
		{"a raw packet socket", socketOf(unix.AF_PACKET, unix.SOCK_RAW, 0), allowedInNamespaces},
		{"a datagram packet socket", socketOf(unix.AF_PACKET, unix.SOCK_DGRAM, 0), allowedInNamespaces},
		{"a vsock socket", socketOf(unix.AF_VSOCK, unix.SOCK_STREAM, 0), 0},
		{"an AF_ALG socket", socketOf(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), 0},
	}
	for name, family := range map[string]int{
		"key": unix.AF_KEY, "xdp": unix.AF_XDP, "can": unix.AF_CAN, "tipc": unix.AF_TIPC, "rds": unix.AF_RDS, "bluetooth": unix.AF_BLUETOOTH,
		"nfc": unix.AF_NFC, "kcm": unix.AF_KCM, "smc": unix.AF_SMC, "ax25": unix.AF_AX25, "x25": unix.AF_X25, "llc": unix.AF_LLC, "rxrpc": unix.AF_RXRPC,
		"qipcrtr": unix.AF_QIPCRTR, "phonet": unix.AF_PHONET, "caif": unix.AF_CAIF, "mctp": unix.AF_MCTP, "pppox": unix.AF_PPPOX,
	} {
		all = append(all, attempt{"the family " + name, anySocketKind(family), 0})
	}
	return all
}

func socketOf(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func anySocketKind(family int) func() error {
	return func() (err error) {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET, unix.SOCK_RAW} {
			if err = socketOf(family, kind, 0)(); err == nil {
				return nil
			}
		}
		return err
	}
}

// linkAttempts returns attempts to change the sandbox's network. All of them must fail
// in a sandbox, even if the sandbox has its own kernel with its own network stack.
func linkAttempts() []attempt {
	lo := uint32(1) // index of the loopback interface in every network namespace
	link := netlinkBody(struct {
		Family, _     uint8
		Type          uint16
		Index         uint32
		Flags, Change uint32
	}{Index: lo, Flags: 0, Change: unix.IFF_UP})
	address := netlinkBody(struct {
		Family, Length, Flags, Scope uint8
		Index                        uint32
		Kind, Type                   uint16
		Address                      [4]byte
	}{Family: unix.AF_INET, Length: 32, Index: lo, Kind: 8, Type: unix.IFA_LOCAL, Address: [4]byte{192, 0, 2, 1}})
	route := netlinkBody(struct {
		Family, To, From, TOS, Table, Protocol, Scope, Type uint8
		Flags                                               uint32
		ToLength, ToType                                    uint16
		Address                                             [4]byte
		LinkLength, LinkType                                uint16
		Link                                                uint32
	}{
		Family: unix.AF_INET, To: 24, Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_STATIC, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST,
		ToLength: 8, ToType: unix.RTA_DST, Address: [4]byte{192, 0, 2, 0}, LinkLength: 8, LinkType: unix.RTA_OIF, Link: lo,
	})
	rule := netlinkBody(struct {
		Family, To, From, TOS, Table, _, _, Action uint8
		Flags                                      uint32
	}{Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN, Action: unix.FR_ACT_TO_TBL})
	return []attempt{
		{"disabling loopback", netlinkAttempt(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, 0, link), allowedInNamespaces},
		{"disabling loopback by ioctl", disableLoopback, allowedInNamespaces},
		{"adding an address", netlinkAttempt(unix.NETLINK_ROUTE, unix.RTM_NEWADDR, unix.NLM_F_CREATE, address), allowedInNamespaces},
		{"adding a route", netlinkAttempt(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, unix.NLM_F_CREATE, route), 0},
		{"adding a routing rule", netlinkAttempt(unix.NETLINK_ROUTE, unix.RTM_NEWRULE, unix.NLM_F_CREATE, rule), allowedInNamespaces},
		{"deleting the nftables rules", netlinkAttempt(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE, 0, []byte{0, 0, 0, 0}), 0},
		{"reading the nftables rules", netlinkAttempt(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP, []byte{0, 0, 0, 0}), 0},
		{"a tun device", func() error { return createTun() }, 0},
		{"changing a network sysctl", func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0) }, 0},
	}
}

// netlinkBody returns the bytes of a structure of fixed size in native byte order.
func netlinkBody(v any) []byte {
	b, err := binary.Append(nil, binary.NativeEndian, v)
	if err != nil {
		panic(err) // cannot fail for these structures
	}
	return b
}

// netlinkAttempt returns a function that sends one request over a netlink socket and
// returns the error in the kernel's answer, or nil if the answer contains no error.
func netlinkAttempt(protocol int, kind, flags uint16, body []byte) func() error {
	return func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
			return err
		}
		header := netlinkBody(unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | flags, Seq: 1})
		if err := unix.Sendto(fd, append(header, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		answer := make([]byte, 4096)
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return err
		}
		if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
			return nil // the kernel answered with data or the end of a list, not with an error
		}
		if errno := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
			return unix.Errno(-errno)
		}
		return nil
	}
}

func disableLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

func createTun() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("hostile0")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TUN)
	return unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
}

// limitAttempts returns attempts to raise the limits of a process or to give the process
// more than its share of the machine. If a sandbox has its own kernel, that kernel may
// allow most of them, because the host limits the sandbox as a whole.
func limitAttempts() []attempt {
	all := []attempt{
		{"a higher priority", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -10) }, allowedForRoot | allowedByOwnKernel},
		{"real-time scheduling", schedulerAttempt(struct {
			Size, Policy   uint32
			Flags          uint64
			Nice           int32
			Priority       uint32
			Run, Deadline_ uint64
			Period         uint64
		}{Size: 48, Policy: unix.SCHED_FIFO, Priority: 1}), allowedByOwnKernel},
		{"deadline scheduling", schedulerAttempt(struct {
			Size, Policy  uint32
			Flags         uint64
			Nice          int32
			Priority      uint32
			Run, Deadline uint64
			Period        uint64
		}{Size: 48, Policy: unix.SCHED_DEADLINE, Run: 10_000_000, Deadline: 20_000_000, Period: 20_000_000}), allowedByOwnKernel},
		{"real-time disk priority", syscallAttempt(unix.SYS_IOPRIO_SET, 1, 0, 1<<13), allowedForRoot | allowedByOwnKernel},
		{"a lower OOM score", func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) }, allowedByOwnKernel},
		// Init sets the core dump limit to 1 byte. With this limit, the kernel does
		// not run the core dump program of the host. With 0, the kernel would run it.
		{"changing the core dump limit", func() error { return setLimit(unix.RLIMIT_CORE, unix.Rlimit{}) }, allowedInNamespaces},
		{"raising init's OOM score", func() error { return os.WriteFile("/proc/1/oom_score_adj", []byte("1000"), 0) }, allowedByOwnKernel},
	}
	for name, resource := range map[string]int{"files": unix.RLIMIT_NOFILE, "processes": unix.RLIMIT_NPROC, "core": unix.RLIMIT_CORE, "locked": unix.RLIMIT_MEMLOCK, "nice": unix.RLIMIT_NICE, "real-time priority": unix.RLIMIT_RTPRIO} {
		all = append(all,
			attempt{"the limit " + name, func() error { return raiseLimit(resource) }, allowedByOwnKernel},
			attempt{"init's limit " + name, func() error { return unix.Prlimit(1, resource, &unix.Rlimit{}, nil) }, 0})
	}
	return all
}

func schedulerAttempt(v any) func() error {
	b := netlinkBody(v)
	return func() error {
		_, _, errno := unix.Syscall(unix.SYS_SCHED_SETATTR, 0, uintptr(unsafe.Pointer(&b[0])), 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
}

func raiseLimit(resource int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return err
	}
	if l.Max == unix.RLIM_INFINITY {
		return errors.New("there is no limit to raise")
	}
	l.Max++
	return setLimit(resource, l)
}

// setLimit sets a limit and reads it back. It returns an error if the limit is not l,
// because a sandbox may ignore the call and report success.
func setLimit(resource int, l unix.Rlimit) error {
	var is unix.Rlimit
	if err := errors.Join(unix.Setrlimit(resource, &l), unix.Getrlimit(resource, &is)); err != nil {
		return err
	}
	if is != l {
		return errors.New("the limit is unchanged")
	}
	return nil
}

// initAttempts returns attempts to access init's process and executable. Init and the
// server run the same executable file: if an agent can write to the file, the agent
// controls the server after the server's next start.
func initAttempts() []attempt {
	at := fmt.Sprintf("/proc/%d/", attackedPID)
	return []attempt{
		{"reading its executable", openAttempt(at+"exe", unix.O_RDONLY), allowedForRoot},
		{"opening its executable", openAttempt(at+"exe", unix.O_PATH), allowedForRoot},
		{"writing its executable", openAttempt(at+"exe", unix.O_WRONLY), 0},
		{"changing its executable's mode", func() error { return unix.Chmod(at+"exe", 0o777) }, 0},
		{"opening its memory", openAttempt(at+"mem", unix.O_RDWR), allowedForRoot},
		{"reading its memory map", readAttempt(at + "maps"), allowedForRoot},
		{"reading its environment", readAttempt(at + "environ"), allowedForRoot},
		{"reading its system call", readAttempt(at + "syscall"), allowedForRoot},
		{"opening its root", openAttempt(at+"root", unix.O_RDONLY|unix.O_DIRECTORY), allowedForRoot},
		{"opening its working directory", openAttempt(at+"cwd", unix.O_RDONLY|unix.O_DIRECTORY), allowedForRoot},
		{"listing its descriptors", openAttempt(at+"fd", unix.O_RDONLY|unix.O_DIRECTORY), allowedForRoot},
		{"opening its descriptors", openAnyDescriptor(at + "fd/"), allowedForRoot},
		{"opening its namespaces", openAttempt(at+"ns/mnt", unix.O_RDONLY), allowedForRoot | allowedByOwnKernel},
		{"writing its user mapping", openAttempt(at+"uid_map", unix.O_WRONLY), allowedForRoot},
		{"writing its core dump filter", openAttempt(at+"coredump_filter", unix.O_WRONLY), allowedForRoot},
	}
}

func openAttempt(path string, how int) func() error {
	return func() error {
		fd, err := unix.Open(path, how|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func readAttempt(path string) func() error {
	return func() error {
		b, err := os.ReadFile(path)
		if err == nil && len(b) == 0 {
			return errors.New("the file is empty")
		}
		return err
	}
}

func openAnyDescriptor(folder string) func() error {
	return func() (err error) {
		for i := range 64 {
			if err = openAttempt(filepath.Join(folder, fmt.Sprint(i)), unix.O_PATH)(); err == nil {
				return nil
			}
		}
		return err
	}
}
