// Package sandboxtest answers: does a driver keep the promises of the sandbox
// port?
//
// Run is the suite that every driver passes. What a kind of driver cannot do it
// declares in its Harness, and the suite holds it to the declaration: nothing
// is skipped because it happened not to work.
//
// The programs that run inside are this package's own: the test binary itself
// is shown to the sandbox and started under another name, so that nothing but
// a kernel is needed. A test package calls Init first thing in TestMain.
package sandboxtest
