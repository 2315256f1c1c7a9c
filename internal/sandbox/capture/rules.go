//go:build linux

package capture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrNoRules is returned if the kernel refuses the rules, usually because nf_tables
// or a part of it is missing.
var ErrNoRules = errors.New("the kernel's nf_tables cannot redirect connections")

// loopbackIndex is the number of the interface lo, which is the first in every
// network namespace.
const loopbackIndex = 1

// addLocalRoute adds the route "local default dev lo src 127.0.0.1". The kernel
// then delivers packets for every address locally. Without src, the source address
// of a connection would be its destination address.
func addLocalRoute() error {
	b := &batch{}
	b.message(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		unix.AF_INET, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0)
	b.bytes(unix.RTA_OIF, native.AppendUint32(nil, loopbackIndex)...)
	b.bytes(unix.RTA_PREFSRC, loopback[:]...)
	b.done()
	if err := b.send(unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("adding the route: %w", err)
	}
	return nil
}

const (
	table = "stint"
	chain = "out"
)

// addRules adds the rules
//
//	table ip stint { chain out { type nat hook output priority dstnat
//	  udp dport 53 redirect to :65253
//	  ip daddr != 127.0.0.0/8 tcp redirect to :65233
//	} }
//
// Other UDP datagrams need no rule: the route delivers them locally, where no
// socket receives them, and the sender gets an error immediately.
func addRules() error {
	b := &batch{}
	b.mark(unix.NFNL_MSG_BATCH_BEGIN)
	b.nftables(unix.NFT_MSG_NEWTABLE)
	b.text(unix.NFTA_TABLE_NAME, table)
	b.done()
	b.nftables(unix.NFT_MSG_NEWCHAIN)
	b.text(unix.NFTA_CHAIN_TABLE, table)
	b.text(unix.NFTA_CHAIN_NAME, chain)
	b.nest(unix.NFTA_CHAIN_HOOK)
	b.network(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_LOCAL_OUT)
	b.network(unix.NFTA_HOOK_PRIORITY, priority)
	b.end()
	b.text(unix.NFTA_CHAIN_TYPE, "nat")
	b.done()
	b.rule(func() {
		b.meta(unix.NFT_META_L4PROTO)
		b.compare(unix.NFT_CMP_EQ, unix.IPPROTO_UDP)
		b.payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2) // destination port
		b.compare(unix.NFT_CMP_EQ, 0, 53)
		b.redirectTo(dnsPort)
	})
	b.rule(func() {
		b.payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 1) // first byte of the destination address
		b.compare(unix.NFT_CMP_NEQ, loopback[0])
		b.meta(unix.NFT_META_L4PROTO)
		b.compare(unix.NFT_CMP_EQ, unix.IPPROTO_TCP)
		b.redirectTo(tcpPort)
	})
	b.mark(unix.NFNL_MSG_BATCH_END)
	if err := b.send(unix.NETLINK_NETFILTER); err != nil {
		return fmt.Errorf("%w: %w", ErrNoRules, err)
	}
	return nil
}

// priority is the priority of destination NAT: -100.
const priority = 1<<32 - 100

// mark appends the message that starts or ends a transaction of nftables.
func (b *batch) mark(kind uint16) {
	b.message(kind, 0, unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES)
	b.done()
}

func (b *batch) nftables(kind uint16) {
	b.message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, unix.NFPROTO_IPV4, unix.NFNETLINK_V0, 0, 0)
}

func (b *batch) rule(expressions func()) {
	b.message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.NFPROTO_IPV4, unix.NFNETLINK_V0, 0, 0)
	b.text(unix.NFTA_RULE_TABLE, table)
	b.text(unix.NFTA_RULE_CHAIN, chain)
	b.nest(unix.NFTA_RULE_EXPRESSIONS)
	expressions()
	b.end()
	b.done()
}

// expression appends one expression of a rule. All expressions read or write
// register 1.
func (b *batch) expression(name string, attributes func()) {
	b.nest(unix.NFTA_LIST_ELEM)
	b.text(unix.NFTA_EXPR_NAME, name)
	b.nest(unix.NFTA_EXPR_DATA)
	attributes()
	b.end()
	b.end()
}

func (b *batch) meta(key uint32) {
	b.expression("meta", func() {
		b.network(unix.NFTA_META_KEY, key)
		b.network(unix.NFTA_META_DREG, unix.NFT_REG_1)
	})
}

func (b *batch) payload(base, offset, size uint32) {
	b.expression("payload", func() {
		b.network(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
		b.network(unix.NFTA_PAYLOAD_BASE, base)
		b.network(unix.NFTA_PAYLOAD_OFFSET, offset)
		b.network(unix.NFTA_PAYLOAD_LEN, size)
	})
}

func (b *batch) compare(op uint32, value ...byte) {
	b.expression("cmp", func() {
		b.network(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		b.network(unix.NFTA_CMP_OP, op)
		b.nest(unix.NFTA_CMP_DATA)
		b.bytes(unix.NFTA_DATA_VALUE, value...)
		b.end()
	})
}

func (b *batch) redirectTo(port uint16) {
	b.expression("immediate", func() {
		b.network(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_1)
		b.nest(unix.NFTA_IMMEDIATE_DATA)
		b.bytes(unix.NFTA_DATA_VALUE, binary.BigEndian.AppendUint16(nil, port)...)
		b.end()
	})
	b.expression("redir", func() { b.network(unix.NFTA_REDIR_REG_PROTO_MIN, unix.NFT_REG_1) })
}
