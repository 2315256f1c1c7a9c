// Package service answers: does the whole service hold, as a process?
//
// It holds no code but tests: they build the binary, start it as an operator
// would, talk to it as users do, and treat it badly.
package service
