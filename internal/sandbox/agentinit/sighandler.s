//go:build linux && (amd64 || arm64)

#include "textflag.h"

// noopHandler is a signal handler with the C calling convention. It returns to
// the kernel.
TEXT noopHandler<>(SB),NOSPLIT|NOFRAME,$0-0
	RET

DATA ·noopHandler(SB)/8, $noopHandler<>(SB)
GLOBL ·noopHandler(SB), RODATA, $8
