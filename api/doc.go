// Package api contains the contract of the HTTP API, openapi.yaml.
//
// The contract is written by hand and describes every path, parameter, status,
// header, and body. Tests check every exchange with a server against it, and use its
// examples as fixtures.
package api
