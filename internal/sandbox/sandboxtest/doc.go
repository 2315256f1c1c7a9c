// Package sandboxtest is the test suite of the sandbox port.
//
// Run is the suite that every driver passes. A driver declares in its Harness
// what it does not support, and the suite checks the declaration: no test is
// skipped because it happens to fail.
//
// The programs that run inside sandboxes are part of this package. The test
// binary is mounted into the sandbox and started under another name, so only a
// kernel is needed. A test package calls Init first in TestMain.
//
// Files named program_* contain code that runs inside a sandbox, files named
// attack_* the attempts that must fail there. The other files contain test
// cases.
package sandboxtest
