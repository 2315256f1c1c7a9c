// Package mcp implements a server of the Model Context Protocol with tools that use
// the API.
//
// The tools call the API's client. Desktop programs start 'stint mcp' and use
// standard input and output; agents and remote programs use POST /mcp, whose
// tools call the API's handler in the same process with the caller's token. So
// the API alone decides what is permitted.
package mcp
