// Package service tests the service as a process.
//
// The tests build the program, start it like an operator, use it like clients, and
// subject it to load, faults, and crashes.
package service
