// Package e2e tests the command line from end to end.
//
// The scripts in testdata run commands of the built program against real servers,
// each with a new data folder.
package e2e
