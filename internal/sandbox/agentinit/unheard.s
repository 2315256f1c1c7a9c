//go:build linux && (amd64 || arm64)

#include "textflag.h"

// unheard is a signal handler, called as C calls: it returns to the kernel.
TEXT unheard<>(SB),NOSPLIT|NOFRAME,$0-0
	RET

DATA ·unheard(SB)/8, $unheard<>(SB)
GLOBL ·unheard(SB), RODATA, $8
