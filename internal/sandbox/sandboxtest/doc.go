// Package sandboxtest is the test suite of the sandbox port.
//
// Every driver must pass Run. The Harness declares what a driver supports. Run compares
// the declaration with the driver's report and runs the tests of all declared features,
// so a test is never skipped because it fails.
//
// The programs that run inside sandboxes are part of this package. The test binary is
// mounted into the sandbox and started under another name, so the tests need no other
// program. TestMain of a driver's test package must call Init, which runs these programs.
//
// Files named program_* contain code that runs inside a sandbox. Files named
// attack_* contain the attempts that must fail there. The other files contain test
// cases.
package sandboxtest
