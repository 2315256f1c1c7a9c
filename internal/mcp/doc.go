// Package mcp implements a server of the Model Context Protocol with tools that call
// the API of Stint.
//
// The tools use package client. Desktop programs start 'stint mcp' and use its
// standard input and output. Agents and remote programs use POST /mcp, where the
// tools call the API's handler in the same process with the caller's token.
// Therefore the API alone checks permissions.
package mcp
