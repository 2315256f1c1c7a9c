// Package service tests the service as a process.
//
// The tests build the stint binary, start servers, use them through the API and the
// command line, and check their behaviour under load, faults, and crashes.
package service
