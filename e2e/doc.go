// Package e2e answers: does what a person types work, from end to end?
//
// It holds scripts in testdata that type commands against the built program and
// real servers, each with a data folder of its own.
package e2e
