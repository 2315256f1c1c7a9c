// Package download answers: does everybody who downloads a version get the same files?
//
// It holds no code but tests. They start the built program as an operator
// would, push folders of odd files, and follow download links as users do:
// with curl that is cut off and goes on, with other programs' readers of
// archives, and with a browser.
package download
