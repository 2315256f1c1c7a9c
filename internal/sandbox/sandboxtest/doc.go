// Package sandboxtest is the test suite of the sandbox port.
//
// Run is the suite that every driver passes. A driver declares in its Harness
// what it does not support, and the suite checks the declaration: no test is
// skipped because it happens to fail.
//
// The programs that run inside sandboxes are part of this package. The test
// binary is mounted into the sandbox and started under another name, so the tests
// need no other program. TestMain of a driver's test package must call Init.
//
// Files named program_* contain code that runs inside a sandbox. Files named
// attack_* contain the attempts that must fail there. The other files contain test
// cases.
package sandboxtest
